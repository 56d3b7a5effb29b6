"""What keeps the driver's module from its GPU: lspci -k, DKMS, modinfo, mokutil and the kernel's log; and spoilt lists.

The outputs are of public reports, shortened, with other addresses.
"""

from __future__ import annotations

import random
import time

import pytest

from gpuenv.doctor.diagnose import diagnose
from gpuenv.matrix.resolve import resolve
from gpuenv.paste.read import read_paste
from tests.paste.controllers import BIONIC, LAPTOP, PASCAL, TRIXIE, TURING, UBUNTU
from tests.paste.facts import MATRIX, primary, snapshot_of, wrong

HELD = (
    "01:00.0 VGA compatible controller: NVIDIA Corporation TU116 [GeForce GTX 1650 SUPER] (rev a1) (prog-if 00 [VGA controller])\n"
    "\tCapabilities: <access denied>\n{}\tKernel modules: {}\n"
)
FAILED = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest\n"
DKMS = (
    "nvidia/535.113.01, 5.15.0-86-generic, x86_64: installed\nnvidia/535.113.01, 6.2.0-33-generic, x86_64: installed\n"
)
REFUSED = "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service\n"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (HELD.format("\tKernel driver in use: nouveau\n", "nouveau, nvidia_drm, nvidia"), "nouveau-loaded"),
        (HELD.format("", "nvidiafb, nouveau, nvidia_drm, nvidia"), "driver-module-not-loaded"),
        (HELD.format("", "nvidia_current_drm, nvidia_current"), "driver-module-not-loaded"),
        (HELD.format("", "nvidiafb, nouveau"), None),
        (HELD.format("\tKernel driver in use: vfio-pci\n", "nvidiafb, nouveau, nvidia"), "driver-module-not-loaded"),
        (HELD.format("\tKernel driver in use: nvidia\n", "nvidiafb, nouveau, nvidia_drm, nvidia"), None),
        (FAILED + REFUSED + DKMS, "driver-kernel-incompatible"),
        (FAILED + DKMS + "$ uname -r\n6.2.0-34-generic\n", "driver-kernel-incompatible"),
        (FAILED + DKMS + "$ uname -r\n6.2.0-33-generic\n", "driver-module-not-loaded"),
        (FAILED + DKMS, "driver-module-not-loaded"),
        (FAILED + DKMS.replace("/", ", ") + "uname -r = 6.2.0-34-generic\n", "driver-kernel-incompatible"),
        (FAILED + "nvidia/535.113.01: added\n$ uname -r\n6.2.0-34-generic\n", "driver-kernel-incompatible"),
        (FAILED + "nvidia/535.113.01: added\n", "driver-module-not-loaded"),
        (DKMS + "$ uname -r\n6.2.0-34-generic\n", None),
        (DKMS + "$ uname -r\n6.2.0-34-generic\nGPU 0: NVIDIA L4 (UUID: GPU-0)\n", None),
        ("modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.2.0-34-generic\n" + DKMS, "driver-kernel-incompatible"),
        ("modinfo: ERROR: Module nvidia not found.\nLinux box 6.2.0-34-generic #1 SMP x86_64 GNU/Linux\n" + DKMS, "driver-kernel-incompatible"),
        (TRIXIE, "nouveau-loaded"),
        (TURING.replace("driver: nvidia v: 515.43.04 alternate: nouveau,nvidia_drm", "driver: N/A alternate: nouveau,nvidia_drm"), "driver-module-not-loaded"),
        (TURING.replace("v: 515.43.04 alternate: nouveau,nvidia_drm", "v: N/A modules: nouveau,nvidia_drm").replace("nvidia v", "vfio-pci v"), "driver-module-not-loaded"),
        (LAPTOP, None),
        (PASCAL, None),
    ],
)  # fmt: skip
def test_what_keeps_the_module_from_its_gpu(text: str, cause: str | None) -> None:
    assert primary(text) == cause


def test_a_module_that_works_is_loaded_whatever_lists_say() -> None:
    told = "GPU 0: NVIDIA L4 (UUID: GPU-0)\n" + HELD.format("", "nvidiafb, nouveau, nvidia")
    assert wrong(told, {"driver.module": None}) == {}
    assert primary(told) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("SecureBoot enabled\n", "True"),
        ("SecureBoot disabled\nPlatform is in Setup Mode\n", "False"),
        ("SecureBoot enabled\nSecureBoot validation is disabled in shim\n", "False"),
        ("EFI variables are not supported on this system\n", None),
        ("I have SecureBoot enabled in the firmware\n", None),
    ],
)
def test_secure_boot(text: str, value: str | None) -> None:
    assert wrong(f"$ mokutil --sb-state\n{text}", {"host.secure_boot": value}) == {}


def test_a_mismatch_of_the_log_is_over_where_a_program_has_listed_gpus() -> None:
    log = "[    9.424670] NVRM: API mismatch: the client has the version 470.129.06, but\n"
    log += "                 NVRM: this kernel module has the version 470.103.01.  Please\n"
    assert primary(log) == "driver-library-version-mismatch"
    expected: dict[str, str | None] = {"driver.module_version": "470.103.01", "driver.library_version": "470.129.06"}
    assert wrong(log, expected) == {}
    assert primary(log + "GPU models and configuration: GPU 0: NVIDIA A100 80GB PCIe\n") is None
    assert primary(log + "GPU 0: NVIDIA L4 (UUID: GPU-0)\n") is None


def test_modinfo_tells_of_the_module_on_the_disk() -> None:
    text = (
        "$ modinfo nvidia | head\nfilename:       /lib/modules/6.8.0-45-generic/updates/dkms/nvidia.ko\n"
        "firmware:       nvidia/550.90.07/gsp_tu10x.bin\nversion:        550.90.07\nsupported:      external\n"
        "license:        NVIDIA\n"
    )
    expected = {"driver.version": "550.90.07", "driver.flavor": "proprietary", "host.kernel": "6.8.0-45-generic"}
    assert wrong(text, {**expected, "driver.module": None, "driver.module_version": None}) == {}
    assert wrong("modinfo: ERROR: Module nvidia not found.\n", {"driver.module": "not-installed"}) == {}


@pytest.mark.parametrize(
    ("log", "code", "cause"),
    [
        ("[  100.000123] NVRM: Xid (PCI:0000:01:00): 79, pid=1234, GPU has fallen off the bus.\n", "GPU209", "gpu-hardware-fault"),
        ("[  100.000123] NVRM: Xid (PCI:0000:01:00): 13, pid=1234, Graphics SM Warp Exception\n", "GPU209", None),
        (
            ("[ 1157.046099] NVRM: The NVIDIA GPU 0000:af:00.0 (PCI ID: 10de:1db5)\n"
             "               NVRM: installed in this system is not supported by open\n"
             "               NVRM: nvidia.ko because it does not include the required GPU\n"),
            "GPU204", "gpu-removed-from-driver",
        ),
        (
            "[   12.345678] nvidia 0000:01:00.0: Unable to change power state from D3cold to D0, device inaccessible\n"
            + HELD.format("", "nvidiafb, nouveau, nvidia_drm, nvidia"),
            "DRV122", "gpu-hardware-fault",
        ),
        (
            "Nov 01 10:00:00 box kernel: NVRM: installed in this system requires use of the NVIDIA open kernel modules.\n",
            "GPU204", "gpu-too-new-for-driver",
        ),
    ],
)  # fmt: skip
def test_lines_of_the_kernels_log(log: str, code: str, cause: str | None) -> None:
    snapshot = snapshot_of(log)
    assert snapshot.kernel_log.source == "pasted dmesg"
    found = diagnose(snapshot, MATRIX, resolve(snapshot, MATRIX), lambda: 0.0).findings
    assert [entry.cause.value for entry in found if entry.code == code] == ([cause] if cause else [])


def test_spoilt_lists_are_read_as_far_as_they_go() -> None:
    chance = random.Random(11)  # noqa: S311 - no secret
    for text in (BIONIC, LAPTOP, TURING, UBUNTU, HELD, DKMS + REFUSED):
        for _ in range(40):
            at, much = chance.randrange(len(text)), chance.randrange(30)
            junk = "".join(chance.choice("0123456789.|: \n\x00=-[]x") for _ in range(chance.randrange(12)))
            snapshot = snapshot_of(text[:at] + junk + text[at + much :])
            resolve(snapshot, MATRIX)


@pytest.mark.parametrize(
    "unit",
    ["Graphics: Device-1: NVIDIA driver: x ", "Graphics: " + "Device-1: " * 300 + "\n", "Graphics:\n" + "driver: " * 500 + "\n",
     "modalias : pci:v000010DEd000011C6sv00003842sd00003059bc03sc00i00\n", "nvidia, 5, 5: added\n", "NVRM: Xid (PCI:0000:01:00): 79\n"],
)  # fmt: skip
def test_a_hostile_list_is_read_in_bounded_time(unit: str) -> None:
    begin = time.process_time()
    read_paste("Graphics:\n" + unit * (300_000 // len(unit)))
    assert time.process_time() - begin < 2
