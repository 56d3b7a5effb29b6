"""What the kernel and the distribution show of a profile's machine; a profile that names no kernel has this host's."""

from __future__ import annotations

import os

from gpuenv.simulate.records import Container, GpuSpec, Module, PciSpec, Profile, Shown

NVIDIA = "10de"  # PCI vendor id
_MODULES = ("nvidia_drm", "nvidia_uvm", "nvidia_modeset", "nvidia")


def kernel_files(profile: Profile) -> dict[str, str]:
    """What the kernel and the distribution show of a machine, by path below the root."""
    name, _, release = profile.host.distribution.partition(" ")
    files = {"etc/os-release": f'ID={name}\nVERSION_ID="{release}"\n'}
    if profile.host.container is not Container.NONE:
        in_pod = profile.host.container is Container.KUBERNETES
        files["proc/1/cgroup"] = "0::/kubepods.slice/kubepods-burstable.slice\n" if in_pod else "0::/\n"
        files |= {".dockerenv": ""} if profile.host.container is Container.DOCKER else {}
    if not profile.host.kernel_files:
        return files
    files |= _module_files(profile)
    for device in devices_on_bus(profile):
        folder = f"sys/bus/pci/devices/{device.pci}"
        files[f"{folder}/class"] = f"{device.pci_class}\n"
        files[f"{folder}/vendor"] = f"0x{device.vendor}\n"
        files[f"{folder}/device"] = f"0x{device.device}\n"
    # A bus without any display controller is still there to be seen.
    files["sys/bus/pci/devices/0000:00:00.0/class"] = "0x060000\n"
    return files


def _module_files(profile: Profile) -> dict[str, str]:
    driver, host = profile.driver, profile.host
    loaded = [*_MODULES] if driver.module.loaded else ["nouveau"] if driver.module is Module.NOUVEAU else []
    if not any(gpu.on_bus for gpu in profile.gpus) and "nvidia_uvm" in loaded:
        loaded.remove("nvidia_uvm")  # Tegra has none
    files = {"proc/modules": "".join(f"{name} 1048576 0 - Live 0x0000000000000000\n" for name in (*loaded, "ext4"))}
    if host.container is Container.NONE:  # an image has no modules of the host's kernel
        built = ["kernel/drivers/gpu/drm/nouveau/nouveau.ko: kernel/drivers/gpu/drm/drm.ko"]
        if driver.module.loaded or driver.module is Module.INSTALLED_NOT_LOADED:
            built.append("updates/dkms/nvidia.ko:")
        kernel = host.kernel or os.uname().release
        files[f"lib/modules/{kernel}/modules.dep"] = "\n".join(built) + "\n"
    if driver.module.loaded:
        files["sys/module/nvidia/version"] = f"{driver.version}\n"
        files["proc/driver/nvidia/version"] = _version_text(profile)
        for number, gpu in enumerate(profile.gpus):
            if gpu.on_bus and gpu.shown is not Shown.BUS:
                files[f"proc/driver/nvidia/gpus/{gpu.pci}/information"] = _information(gpu, number)
    return files


def _version_text(profile: Profile) -> str:
    """As the kernel module words it; two blanks stand around the version and before the date."""
    driver, arch = profile.driver, profile.host.arch
    if driver.module is Module.OPEN:
        kind = f"NVIDIA UNIX Open Kernel Module for {arch}  {driver.version}  Release Build"
    else:
        kind = f"NVIDIA UNIX {arch} Kernel Module  {driver.version}"
    return f"NVRM version: {kind}  {driver.built}\nGCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)\n"


def _information(gpu: GpuSpec, number: int) -> str:
    return (
        f"Model: \t\t {gpu.name}\nIRQ:   \t\t {77 + number}\nGPU UUID: \t {gpu.uuid}\nBus Type: \t PCI\n"
        f"Bus Location: \t {gpu.pci}\nDevice Minor: \t {number}\nGPU Excluded:\t No\n"
    )


def devices_on_bus(profile: Profile) -> tuple[PciSpec, ...]:
    """What the PCI bus shows, the GPUs first; nothing where the kernel's files are not to be seen."""
    if not profile.host.kernel_files:
        return ()
    module = profile.driver.module
    holder = "nvidia" if module.loaded else "nouveau" if module is Module.NOUVEAU else None
    gpus = (
        PciSpec(gpu.pci, gpu.pci_class, NVIDIA, gpu.device, None if gpu.shown is Shown.BUS else holder)
        for gpu in profile.gpus
        if gpu.on_bus
    )
    return (*gpus, *profile.other_devices)
