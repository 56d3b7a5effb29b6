"""GPUs of several generations in one machine: no fix may disable a working GPU."""

from __future__ import annotations

import pytest

from gpuenv.model.finding import Finding
from gpuenv.model.reading import known
from gpuenv.model.snapshot import Gpu, PciGpu, Snapshot
from gpuenv.model.versions import ComputeCapability
from tests.doctor.test_driver_support import driver_findings, machine
from tests.doctor.test_fixes import commands, primary
from tests.doctor.test_fixes import machine as without_driver

K80, L4, GTX_1080_TI, RTX_5090, T4, V100 = "102d", "27b8", "1b06", "2b85", "1eb8", "1db6"
WORKING = {"NVIDIA L4": (L4, (8, 9)), "Tesla K80": (K80, (3, 7)), "GeForce GTX 1080 Ti": (GTX_1080_TI, (6, 1))}


def two_gpus(name: str, device: str, driver: str, flavor: str = "proprietary") -> Snapshot:
    """A machine with a working GPU and one that its driver does not list."""
    snapshot, (own, capability) = machine(device, flavor, driver=driver), WORKING[name]
    gpu = Gpu(
        index=known(0, "nvml"),
        ordinal=known(0, "libcuda"),
        pci=known("0000:02:00.0", "nvml"),
        name=known(name, "nvml"),
        compute_capability=known(ComputeCapability(*capability), "nvml"),
    )
    return snapshot._replace(
        driver=snapshot.driver._replace(cuda_init=known(0, "libcuda")),
        gpus=(gpu,),
        gpu_count=known(1, "nvml"),
        visible_count=known(1, "libcuda"),
        pci_gpus=(*(snapshot.pci_gpus or ()), PciGpu("0000:02:00.0", "10de", own, None, "nvidia")),
    )


def unknown_to_driver(snapshot: Snapshot) -> Finding:
    (finding,) = [entry for entry in driver_findings(snapshot) if entry.code == "GPU204"]
    return finding


@pytest.mark.parametrize(
    ("snapshot", "requirements", "use"),
    [
        (
            two_gpus("NVIDIA L4", K80, "550.54.14"),
            ("Tesla K80 at 0000:01:00.0 needs branch 470 or older", "NVIDIA L4 (8.9) needs branch 520 or newer"),
            "Use Tesla K80 at 0000:01:00.0 in another machine",
        ),
        (
            two_gpus("Tesla K80", RTX_5090, "470.256.02"),
            ("Tesla K80 (3.7) needs branch 470 or older", "GeForce RTX 5090 at 0000:01:00.0 needs branch 570 or newer"),
            "Use GeForce RTX 5090 at 0000:01:00.0 in another machine",
        ),
        (
            two_gpus("GeForce GTX 1080 Ti", RTX_5090, "550.54.14"),
            ("branch 580 or older with its proprietary", "branch 570 or newer with its open"),
            "Use GeForce RTX 5090 at 0000:01:00.0 in another machine",
        ),
    ],
)
def test_a_branch_that_would_disable_a_working_gpu_is_not_advised(
    snapshot: Snapshot, requirements: tuple[str, str], use: str
) -> None:
    result = unknown_to_driver(snapshot)
    assert commands(result.fix) == []
    assert result.fix[0].text.startswith("No single driver supports all these GPUs: ")
    assert all(requirement in result.fix[0].text for requirement in requirements)
    assert result.fix[1].text.startswith("Keep the installed driver: ")
    assert use in result.fix[1].text


def test_a_branch_that_drives_both_is_advised() -> None:
    old = unknown_to_driver(two_gpus("NVIDIA L4", GTX_1080_TI, "595.58.03"))
    assert commands(old.fix)[:2] == ["sudo apt-get install nvidia-driver-580", "sudo apt-mark hold nvidia-driver-580"]
    new = unknown_to_driver(two_gpus("GeForce GTX 1080 Ti", L4, "470.256.02"))
    assert "branch 520 to 580" in new.fix[0].text, "a newer branch would disable the older GPU"


def test_a_passed_through_gpu_needs_no_driver() -> None:
    snapshot = two_gpus("NVIDIA L4", GTX_1080_TI, "595.58.03")
    third = PciGpu("0000:03:00.0", "10de", K80, None, "vfio-pci")
    result = unknown_to_driver(snapshot._replace(pci_gpus=(*(snapshot.pci_gpus or ()), third)))
    assert commands(result.fix)[0] == "sudo apt-get install nvidia-driver-580"


def finding_without_driver(distribution: str, *devices: str) -> Finding:
    snapshot = without_driver(distribution)
    return primary(
        snapshot._replace(pci_gpus=tuple(PciGpu(f"0000:{n:02x}:00.0", "10de", d) for n, d in enumerate(devices)))
    )


@pytest.mark.parametrize("distribution", ["ubuntu 24.04", "debian 12", "fedora 42", "rocky 9.5", "arch"])
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (K80, L4, "Install a driver of branch 520 or newer: it drives NVIDIA L4 at 0000:01:00.0. Use Tesla K80"),
        (
            GTX_1080_TI,
            RTX_5090,
            "Install a driver of branch 570 or newer with its open kernel modules: it drives GeForce RTX 5090",
        ),
    ],
)
def test_the_driver_of_the_newer_gpu_is_named_if_no_driver_fits_all(
    distribution: str, old: str, new: str, expected: str
) -> None:
    fixes = finding_without_driver(distribution, old, new).fix
    assert commands(fixes) == []
    assert fixes[0].text.startswith("No single driver supports all these GPUs: ")
    assert fixes[1].text.startswith(expected)


@pytest.mark.parametrize(
    ("distribution", "devices", "expected"),
    [
        ("ubuntu 24.04", (K80, T4), "nvidia-driver-470"),
        ("ubuntu 24.04", (GTX_1080_TI, L4), "nvidia-driver-580"),
        ("ubuntu 24.04", (L4, RTX_5090), "ubuntu-drivers install"),
        ("fedora 42", (V100, L4), "akmod-nvidia-580xx"),
        ("debian 12", (V100, L4), "apt-get install nvidia-driver"),
        ("debian 12", (RTX_5090,), "branch 570 or newer with its open kernel modules"),
    ],
)
def test_a_driver_that_fits_all_gpus_is_installed(distribution: str, devices: tuple[str, ...], expected: str) -> None:
    fixes = finding_without_driver(distribution, *devices).fix
    assert expected in " ".join([fixes[0].text, *commands(fixes)])
