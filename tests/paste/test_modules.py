"""What keeps the driver's module from its GPU: lspci -k and the kernel's log; and damaged lists.

The outputs are of public reports, shortened, with other addresses.
"""

from __future__ import annotations

import random
import time

import pytest

from gpuenv.doctor.diagnose import diagnose
from gpuenv.matrix.resolve import resolve
from gpuenv.paste.reader import read_paste
from tests.paste.pasted_facts import primary, snapshot_of, wrong
from tests.support.matrix import MATRIX

HELD = (
    "01:00.0 VGA compatible controller: NVIDIA Corporation TU116 [GeForce GTX 1650 SUPER] (rev a1) (prog-if 00 [VGA controller])\n"
    "\tCapabilities: <access denied>\n{}\tKernel modules: {}\n"
)
FAILED = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest\n"

LOG = (
    "[    9.424670] NVRM: API mismatch: the client has the version 470.129.06, but\n"
    "                 NVRM: this kernel module has the version 470.103.01.  Please\n"
)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (HELD.format("\tKernel driver in use: nouveau\n", "nouveau, nvidia_drm, nvidia"), "nouveau-loaded"),
        (HELD.format("", "nvidiafb, nouveau, nvidia_drm, nvidia"), "driver-module-not-loaded"),
        (HELD.format("", "nvidia_current_drm, nvidia_current"), "driver-module-not-loaded"),
        (HELD.format("", "nvidiafb, nouveau"), None),
        (HELD.format("\tKernel driver in use: vfio-pci\n", "nvidiafb, nouveau, nvidia"), "driver-module-not-loaded"),
        (HELD.format("\tKernel driver in use: nvidia\n", "nvidiafb, nouveau, nvidia_drm, nvidia"), None),
    ],
)  # fmt: skip
def test_a_module_that_does_not_use_its_gpu_has_a_cause(text: str, cause: str | None) -> None:
    assert primary(text) == cause


def test_a_working_module_is_loaded_despite_lists() -> None:
    text = "GPU 0: NVIDIA L4 (UUID: GPU-0)\n" + HELD.format("", "nvidiafb, nouveau, nvidia")
    assert wrong(text, {"driver.module": None}) == {}
    assert primary(text) is None


def test_a_mismatch_in_the_log_is_over_if_a_program_listed_gpus() -> None:
    assert primary(LOG) == "driver-library-version-mismatch"
    expected: dict[str, str | None] = {"driver.module_version": "470.103.01", "driver.library_version": "470.129.06"}
    assert wrong(LOG, expected) == {}
    assert primary(LOG + "GPU models and configuration: GPU 0: NVIDIA A100 80GB PCIe\n") is None
    assert primary(LOG + "GPU 0: NVIDIA L4 (UUID: GPU-0)\n") is None


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
            "Nov 01 10:00:00 box kernel: NVRM: installed in this system requires use of the NVIDIA open kernel modules.\n",
            "GPU204", "gpu-too-new-for-driver",
        ),
    ],
)  # fmt: skip
def test_lines_of_the_kernel_log_lead_to_their_cause(log: str, code: str, cause: str | None) -> None:
    snapshot = snapshot_of(log)
    assert snapshot.kernel_log.source == "pasted dmesg"
    findings = diagnose(snapshot, MATRIX, lambda: 0.0).findings
    assert [entry.cause.value for entry in findings if entry.code == code] == ([cause] if cause else [])


def test_damaged_lists_are_read_as_far_as_possible() -> None:
    chance = random.Random(11)  # noqa: S311 - no secret
    for text in (HELD, LOG):
        for _ in range(40):
            at, much = chance.randrange(len(text)), chance.randrange(30)
            junk = "".join(chance.choice("0123456789.|: \n\x00=-[]x") for _ in range(chance.randrange(12)))
            snapshot = snapshot_of(text[:at] + junk + text[at + much :])
            resolve(snapshot, MATRIX)


@pytest.mark.parametrize(
    "unit",
    ["01:00.0 3D controller: NVIDIA Corporation Device 1eb8\n", "Kernel modules: nvidia, " + "nvidia, " * 50 + "\n", "NVRM: Xid (PCI:0000:01:00): 79\n"],
)  # fmt: skip
def test_a_hostile_list_is_read_in_bounded_time(unit: str) -> None:
    begin = time.process_time()
    read_paste(unit * (300_000 // len(unit)))
    assert time.process_time() - begin < 2
