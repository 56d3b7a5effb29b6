"""The driver's loaded and installed kernel modules, with made-up driver roots."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.probe.probe_runs import kernel_of
from tests.probe.raw_facts import DriverGpu, KernelModules
from tests.probe.roots import make_root

RELEASE = os.uname().release
MODULES = f"lib/modules/{RELEASE}"
PROC_VERSION = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
    "GCC version:  gcc version 11.3.0 (Ubuntu 11.3.0-1ubuntu1~22.04)\n"
)
# As published for an RTX 3090 with driver 590.48.01.
INFORMATION = (
    "Model: \t\t NVIDIA GeForce RTX 3090\n"
    "IRQ:   \t\t 77\n"
    "GPU UUID: \t GPU-eaf23aa1-4d3d-596c-da66-b86b0e5db584\n"
    "Video BIOS: \t 94.02.26.40.81\n"
    "Bus Type: \t PCI\n"
    "DMA Size: \t 47 bits\n"
    "DMA Mask: \t 0x7fffffffffff\n"
    "Bus Location: \t 0000:01:00.0\n"
    "Device Minor: \t 0\n"
    "GPU Firmware: \t 590.48.01\n"
    "GPU Excluded:\t No\n"
)


def test_a_loaded_driver_is_recognised_by_its_modules_files(tmp_path: Path) -> None:
    root = make_root(
        tmp_path,
        {
            "proc/modules": "nvidia_uvm 1 0 - Live 0x0\nnvidia 1 1 nvidia_uvm, Live 0x0\nnvidiafb 1 0 - Live 0x0\n",
            "sys/module/nvidia/version": "535.104.05\n",
            "proc/driver/nvidia/version": PROC_VERSION,
            "proc/driver/nvidia/gpus/0000:01:00.0/information": INFORMATION,
        },
    )
    facts = kernel_of(root)
    assert facts.modules == KernelModules(nvidia_loaded=True, nouveau_loaded=False)
    assert facts.sys_version == "535.104.05"
    assert facts.proc_version == PROC_VERSION.strip()
    assert facts.driver_gpus == (
        DriverGpu(
            "NVIDIA GeForce RTX 3090", "GPU-eaf23aa1-4d3d-596c-da66-b86b0e5db584", "0000:01:00.0", excluded=False
        ),
    )


def test_a_gpu_that_an_option_excludes_is_marked(tmp_path: Path) -> None:
    root = make_root(
        tmp_path,
        {
            "proc/driver/nvidia/gpus/0000:41:00.0/information": "Bus Location: \t 0000:41:00.0\nGPU Excluded:\t Yes\n",
            "proc/driver/nvidia/params": 'GpuBlacklist: ""\nExcludedGpus: "0000:41:00.0"\n',
        },
    )
    facts = kernel_of(root)
    assert facts.driver_gpus == (DriverGpu(pci="0000:41:00.0", excluded=True),)
    assert facts.driver_params == "0000:41:00.0"


def test_modules_with_similar_names_are_not_the_driver(tmp_path: Path) -> None:
    root = make_root(tmp_path, {"proc/modules": "nvidiafb 1 0 - Live 0x0\nnvidia_wmi_ec_backlight 1 0 - Live 0x0\n"})
    assert kernel_of(root).modules == KernelModules(nvidia_loaded=False, nouveau_loaded=False)


def test_a_module_listed_only_in_sysfs_is_loaded(tmp_path: Path) -> None:
    """Such as in a sandbox that shows /sys and hides /proc/modules."""
    modules = kernel_of(make_root(tmp_path, {"sys/module/nouveau/x": ""})).modules
    assert modules == KernelModules(nvidia_loaded=False, nouveau_loaded=True)


def test_modules_are_unknown_if_none_are_visible(tmp_path: Path) -> None:
    """As under gVisor."""
    assert kernel_of(make_root(tmp_path, {"proc/1/cgroup": ""})).modules == KernelModules()


@pytest.mark.parametrize(
    ("files", "installed"),
    [
        ({f"{MODULES}/modules.dep": "updates/dkms/nvidia.ko: kernel/drivers/video/video.ko\n"}, True),
        ({f"{MODULES}/modules.dep": "kernel/drivers/net/e1000.ko:\nkernel/nvidia-535/nvidia.ko:\n"}, True),
        ({f"{MODULES}/modules.dep": "extra/nvidia.ko.xz: \n"}, True),
        ({f"{MODULES}/modules.dep": "nvidia.ko.zst:\n"}, True),
        ({f"{MODULES}/updates/dkms/nvidia.ko.zst": "", f"{MODULES}/modules.dep": ""}, True),
        ({f"{MODULES}/extra/nvidia/nvidia.ko": ""}, True),
        ({f"{MODULES}/modules.dep": "kernel/drivers/video/fbdev/nvidia/nvidiafb.ko:\nkernel/nvidia-drm.ko:\n"}, False),
        ({f"{MODULES}/modules.dep": ""}, False),
        ({"lib/modules/0.0.0-another/updates/dkms/nvidia.ko": ""}, None),
        ({}, None),
    ],
)
def test_an_installed_module_of_this_kernel_is_found(
    tmp_path: Path,
    files: dict[str, str],
    installed: bool | None,  # noqa: FBT001 - a table
) -> None:
    modules = kernel_of(make_root(tmp_path, files)).modules
    assert modules == KernelModules(module_installed=installed)


@pytest.mark.parametrize(
    ("name", "installed"),
    [
        ("nvidia-current", True),
        ("nvidia-current-open", True),
        ("nvidia-tesla", True),
        ("nvidia-tesla-470", True),
        ("nvidia-tesla-535-open", True),
        ("nvidia-legacy-390xx", True),
        ("nvidia-current-drm", False),
        ("nvidia-current-open-uvm", False),
        ("nvidia-tesla-470-modeset", False),
        ("nvidiafb", False),
    ],
)
def test_a_module_with_a_debian_name_is_found(
    tmp_path: Path,
    name: str,
    installed: bool,  # noqa: FBT001 - a table
) -> None:
    listed, installed_only = tmp_path / "listed", tmp_path / "installed"
    make_root(listed, {f"{MODULES}/modules.dep": f"updates/dkms/{name}.ko:\n"})
    make_root(installed_only, {f"{MODULES}/updates/dkms/{name}.ko.xz": ""})
    for root in (listed, installed_only):
        assert kernel_of(root).modules == KernelModules(module_installed=installed)
