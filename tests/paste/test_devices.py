"""Controllers listed by lspci."""

from __future__ import annotations

import pytest

from tests.paste.pasted_facts import primary, snapshot_of

HELD = (
    "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA106M [GeForce RTX 3060 Mobile / Max-Q] [10de:2520] (rev a1)\n"
    "\tKernel driver in use: nvidia\n\tKernel modules: nvidiafb, nouveau, nvidia_drm, nvidia\n"
)
PLAIN = "0000:01:00.0 VGA compatible controller: NVIDIA Corporation GA106M [GeForce RTX 3060 Mobile / Max-Q] (rev a1)\n"


@pytest.mark.parametrize("text", [HELD + PLAIN, PLAIN + HELD, HELD * 2])
def test_a_device_in_two_outputs_is_listed_once(text: str) -> None:
    (device,) = snapshot_of(text).pci_gpus or ()
    assert (device.pci[-7:], device.device, device.kernel_driver) == ("01:00.0", "2520", "nvidia")


def test_the_kernel_names_the_gpu_and_the_driver_that_does_not_support_it() -> None:
    text = (
        "[    4.499812] NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:1b80)\n"
        "               NVRM: installed in this system is not supported by the\n"
        "               NVRM: NVIDIA 590.44.01 driver release.\n"
        "$ nvidia-smi\n"
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
    )
    snapshot = snapshot_of(text)
    (device,) = snapshot.pci_gpus or ()
    assert (device.pci, device.vendor, device.device) == ("0000:01:00.0", "10de", "1b80")
    assert str(snapshot.driver.version.value) == "590.44.01"
    assert primary(text) == "gpu-removed-from-driver"
