"""The kernel script's facts on DKMS builds, modules of other kernels, blocked modules, Secure Boot and lockdown."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpuenv.model.snapshot import DkmsBuild
from gpuenv.probe.assembly import assemble
from gpuenv.probe.raw import RawFacts
from tests.probe.probe_runs import kernel_of
from tests.probe.roots import make_root

if TYPE_CHECKING:
    from pathlib import Path

RELEASE = os.uname().release
TREE = "var/lib/dkms/nvidia"
SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
LOG = "DKMS make.log for nvidia-535.104.05 for kernel 6.5.2-arch1-1 (x86_64)\n"
MODPROBE = "/etc/modprobe.d"
BUILT_BY = """
warning: the compiler differs from the one used to build the kernel
  The kernel was built by: x86_64-linux-gnu-gcc (Ubuntu) {}
  You are using:           cc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0
"""
UNKNOWN_OPTION = "cc: error: unrecognized command-line option '-ftrivial-auto-var-init=zero'\n"


@pytest.mark.parametrize(
    ("files", "builds"),
    [
        ({}, ()),
        ({f"{TREE}/535.104.05/build/dkms.conf": ""}, (DkmsBuild("nvidia", "535.104.05"),)),
        (
            {f"{TREE}/535.104.05/6.5.1/x86_64/module/nvidia.ko.zst": "", f"{TREE}/535.104.05/6.5.1/x86_64/log/x": ""},
            (DkmsBuild("nvidia", "535.104.05", "6.5.1", "built"),),
        ),
        (
            {f"{TREE}/535.104.05/build/make.log": LOG},
            (DkmsBuild("nvidia", "535.104.05", "6.5.2-arch1-1", "failed"),),
        ),
        (
            # As DKMS 3.1 and later words it.
            {f"{TREE}/575.64/build/make.log": "DKMS (dkms-3.2.0) make.log for nvidia/575.64 for kernel 6.15.4 (x)\n"},
            (DkmsBuild("nvidia", "575.64", "6.15.4", "failed"),),
        ),
        (
            # The log of a failed build is obsolete after a successful one.
            {f"{TREE}/535.104.05/build/make.log": LOG, f"{TREE}/535.104.05/6.5.2-arch1-1/x86_64/module/nvidia.ko": ""},
            (DkmsBuild("nvidia", "535.104.05", "6.5.2-arch1-1", "built"),),
        ),
        (
            {f"{TREE}/535.104.05/6.5.1/x86_64/module/x": "", "var/lib/dkms/zfs/2.2/6.5.1/x86_64/module/zfs.ko": ""},
            (DkmsBuild("nvidia", "535.104.05", "6.5.1", "built"),),
        ),
        (
            {f"{TREE}/original_module/6.5.1/x86_64/nvidia.ko": "", "var/lib/dkms/nvidia-current/470.1/source/x": ""},
            (DkmsBuild("nvidia-current", "470.1"),),
        ),
        ({f"{TREE}/535.104.05/build/make.log": "garbage"}, (DkmsBuild("nvidia", "535.104.05"),)),
        *(
            (
                {f"{TREE}/535.104.05/build/make.log": LOG + expected},
                (DkmsBuild("nvidia", "535.104.05", "6.5.2-arch1-1", "failed", compiler),),
            )
            for expected, compiler in (
                (BUILT_BY.format("12.3.0") + UNKNOWN_OPTION, "gcc-12"),
                (BUILT_BY.format("11.3.0"), None),  # a warning of successful builds too
                ("/bin/sh: 1: gcc-13: not found\n", "gcc-13"),
                ("/bin/sh: line 1: gcc-14: command not found\n", "gcc-14"),
                (UNKNOWN_OPTION, None),
            )
        ),
    ],
)
def test_dkms_builds_are_listed_by_kernel(tmp_path: Path, files: dict[str, str], builds: tuple[DkmsBuild, ...]) -> None:
    root = make_root(tmp_path, files)
    if f"{TREE}/535.104.05/6.5.1/x86_64/module/nvidia.ko.zst" in files:
        (root / TREE / "kernel-6.5.1-x86_64").symlink_to("535.104.05/6.5.1/x86_64")
    assert kernel_of(root).dkms == builds


@pytest.mark.parametrize(
    ("files", "kernels"),
    [
        ({}, ()),
        ({"lib/modules/5.4.0/modules.dep": "kernel/nvidia-550/nvidia.ko:\n"}, ("5.4.0",)),
        (
            {"lib/modules/5.4.0/extra/nvidia/nvidia.ko.xz": "", f"lib/modules/{RELEASE}/modules.dep": ""},
            ("5.4.0",),
        ),
        ({"lib/modules/5.4.0/modules.dep": "x/nvidiafb.ko:\n"}, ()),
        ({f"lib/modules/{name}/modules.dep": "extra/nvidia.ko:\n" for name in ("5.4.0", RELEASE)}, ()),
    ],
)
def test_other_kernels_with_the_drivers_module_are_listed(
    tmp_path: Path, files: dict[str, str], kernels: tuple[str, ...]
) -> None:
    raw = RawFacts(kernel=kernel_of(make_root(tmp_path, files)))
    assert assemble(raw, None).driver.module_kernels.value == kernels


def test_many_modules_of_one_kernel_do_not_displace_another_kernels(tmp_path: Path) -> None:
    many = "".join(f"kernel/nvidia-{branch}/nvidia.ko:\n" for branch in range(500, 540))
    files = {f"lib/modules/6.8.0-{n}-generic/modules.dep": many for n in range(10, 40)}
    driver = assemble(RawFacts(kernel=kernel_of(make_root(tmp_path, files))), None).driver
    assert driver.module_kernels.value == tuple(f"6.8.0-{n}-generic" for n in range(10, 26))
    assert len(driver.module_files.value or ()) == 16 * 8


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, ()),
        (
            {
                "lib/modules/6.8.0-41-generic/modules.dep": (
                    "kernel/nvidia-550srv-open/nvidia-drm.ko: kernel/nvidia-550srv-open/nvidia.ko\n"
                    "kernel/nvidia-550srv-open/nvidia.ko:\nkernel/nvidia-535/nvidia.ko:\n"
                )
            },
            ("6.8.0-41-generic/kernel/nvidia-535/nvidia.ko", "6.8.0-41-generic/kernel/nvidia-550srv-open/nvidia.ko"),
        ),
        (
            {"lib/modules/6.8.1/modules.dep": "/lib/modules/6.8.1/kernel/drivers/video/nvidia.ko:\n"},
            ("6.8.1/kernel/drivers/video/nvidia.ko",),
        ),
        ({"lib/modules/5.4.0/extra/nvidia/nvidia.ko.xz": ""}, ("5.4.0/extra/nvidia/nvidia.ko.xz",)),
        ({f"lib/modules/{name}/modules.dep": "extra/nvidia.ko:\n" for name in ("5.4.0", RELEASE)}, ()),
    ],
)
def test_the_module_files_of_other_kernels_are_listed(
    tmp_path: Path, files: dict[str, str], expected: tuple[str, ...]
) -> None:
    assert kernel_of(make_root(tmp_path, files)).module_files == expected


@pytest.mark.parametrize(
    ("files", "blocks"),
    [
        ({}, ()),
        ({"etc/modprobe.d/a.conf": "# blacklist nvidia\nblacklist nvidiafb\nblacklist nouveau\n"}, ()),
        ({"etc/modprobe.d/a.conf": "install nvidia modprobe -i nvidia-current $CMDLINE_OPTS\n"}, ()),
        ({"etc/modprobe.d/a.conf": "blacklist nvidia-current-open-drm\n"}, ()),
        ({"etc/modprobe.d/a.conf": "blacklist nvidia-tesla\n"}, ("/etc/modprobe.d/a.conf: blacklist nvidia-tesla",)),
        ({"etc/modprobe.d/a.txt": "blacklist nvidia\n"}, ()),
        ({"etc/modprobe.d/a.conf": " blacklist  nvidia \n"}, ("/etc/modprobe.d/a.conf: blacklist  nvidia",)),
        ({"lib/modprobe.d/b.conf": "alias nvidia off\n"}, ("/lib/modprobe.d/b.conf: alias nvidia off",)),
        ({"lib/modprobe.d/b.conf": "alias nvidia off\n", "etc/modprobe.d/b.conf": ""}, ()),
        ({f"{MODPROBE[1:]}/c.conf": "install nvidia /bin/false\n"}, (f"{MODPROBE}/c.conf: install nvidia /bin/false",)),
        ({"proc/cmdline": "quiet modprobe.blacklist=nouveau\n"}, ()),
        ({"proc/cmdline": "module_blacklist=a,nvidia x\n"}, ("/proc/cmdline: module_blacklist=a,nvidia",)),
    ],
)  # fmt: skip
def test_module_blocks_are_reported(tmp_path: Path, files: dict[str, str], blocks: tuple[str, ...]) -> None:
    assert kernel_of(make_root(tmp_path, files)).module_blocks == blocks


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, ()),
        ({"etc/modprobe.d/a.conf": "options nvidia NVreg_PreserveVideoMemoryAllocations=1\n"}, ()),
        (
            {"etc/modprobe.d/a.conf": "options nvidia NVreg_Foo=1 NVreg_ExcludedGpus=GPU-1\n# options nvidia x\n"},
            ("/etc/modprobe.d/a.conf: options nvidia NVreg_Foo=1 NVreg_ExcludedGpus=GPU-1",),
        ),
        (
            {"usr/lib/modprobe.d/b.conf": "options nvidia-current NVreg_DeviceFileMode=0660\n"},
            ("/usr/lib/modprobe.d/b.conf: options nvidia-current NVreg_DeviceFileMode=0660",),
        ),
        (
            {"proc/cmdline": "quiet nvidia.NVreg_ExcludedGpus=GPU-1\n"},
            ("/proc/cmdline: nvidia.NVreg_ExcludedGpus=GPU-1",),
        ),
    ],
)
def test_options_that_leave_gpus_out_or_restrict_nodes_are_reported(
    tmp_path: Path, files: dict[str, str], expected: tuple[str, ...]
) -> None:
    assert kernel_of(make_root(tmp_path, files)).module_options == expected


@pytest.mark.parametrize(("text", "expected"), [("2\n", 2), ("0\n", 0), ("7\n", None), ("", None)])
def test_the_overcommit_mode_is_reported(tmp_path: Path, text: str, expected: int | None) -> None:
    assert kernel_of(make_root(tmp_path, {"proc/sys/vm/overcommit_memory": text})).overcommit == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("\x06\0\0\0\x01", True), ("\x06\0\0\0\0", False), ("\x06\0\0\0", None), ("", None), ("\x06\0\0\0\x01\x01", None)],
)
def test_secure_boot_is_read_from_the_byte_after_the_attributes(
    tmp_path: Path, text: str, *, expected: bool | None
) -> None:
    assert kernel_of(make_root(tmp_path, {SECURE_BOOT: text})).secure_boot is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[none] integrity confidentiality\n", "none"),
        ("none [integrity] confidentiality\n", "integrity"),
        ("none integrity [confidentiality]\n", "confidentiality"),
        ("none integrity confidentiality\n", None),
        ("", None),
    ],
)
def test_the_lockdown_mode_is_read_from_the_brackets(tmp_path: Path, text: str, expected: str | None) -> None:
    assert kernel_of(make_root(tmp_path, {"sys/kernel/security/lockdown": text})).lockdown == expected
