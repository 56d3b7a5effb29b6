"""Kernel modules that are missing, rejected or blocked, or whose GPU has another driver."""

from __future__ import annotations

from dataclasses import replace

from gpuenv.simulate.profile import KernelModule, PciSpec
from tests.scenarios.driver_states import (
    NO_DRIVER_LIBRARIES,
    NOT_RESPONDING,
    VERSION_MISMATCH,
    kernel_log,
    other_devices,
)
from tests.scenarios.scenario import combine, driver, gpus, host
from tests.unseen.machine_table import case, with_files

NEW_KERNEL = "5.15.0-97-generic"
OLD_KERNEL = "5.15.0-91-generic"
SECURE_BOOT = {
    "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": "\x06\0\0\0\x01",
    "sys/kernel/security/lockdown": "none [integrity] confidentiality\n",
    "sys/module/module/parameters/sig_enforce": "N\n",
}
FEDORA_KERNEL = "6.11.4-301.fc41.x86_64"
RUN_FILE = {"usr/bin/nvidia-installer": "", "usr/bin/nvidia-uninstall": ""}

KERNELS = (
    case(
        "driver-kernel-incompatible",
        "Ubuntu with a new kernel for which DKMS did not build",
        "l4-550",
        combine(
            host(kernel=NEW_KERNEL),
            driver(module=KernelModule.NONE),
            NOT_RESPONDING,
            with_files(
                {
                    "usr/src/nvidia-550.163.01/dkms.conf": 'PACKAGE_NAME="nvidia"\n',
                    f"var/lib/dkms/nvidia/550.163.01/{OLD_KERNEL}/x86_64/module/nvidia.ko": "",
                    f"lib/modules/{OLD_KERNEL}/modules.dep": "updates/dkms/nvidia.ko:\n",
                }
            ),
        ),
        first_fix=f"linux-headers-{NEW_KERNEL}",
    ),
    case(
        "driver-kernel-incompatible",
        "Ubuntu with a new kernel without its signed modules",
        "l4-550",
        combine(
            host(kernel=NEW_KERNEL),
            driver(module=KernelModule.NONE),
            NOT_RESPONDING,
            with_files({f"lib/modules/{OLD_KERNEL}/modules.dep": "kernel/nvidia-550/nvidia.ko:\n"}),
        ),
        first_fix="linux-modules-nvidia-550",
    ),
    case(
        "driver-kernel-incompatible",
        "Ubuntu with a new kernel without the open server modules",
        "l4-550",
        combine(
            host(kernel=NEW_KERNEL),
            driver(module=KernelModule.NONE),
            NOT_RESPONDING,
            with_files({f"lib/modules/{OLD_KERNEL}/modules.dep": "kernel/nvidia-550srv-open/nvidia.ko:\n"}),
        ),
        first_fix=f"linux-modules-nvidia-550-server-open-{NEW_KERNEL}",
    ),
    case(
        "driver-kernel-incompatible",
        "Ubuntu with a new kernel and a driver of the .run file without DKMS",
        "l4-550",
        combine(
            host(kernel=NEW_KERNEL),
            driver(module=KernelModule.NONE),
            NOT_RESPONDING,
            with_files({f"lib/modules/{OLD_KERNEL}/modules.dep": "kernel/drivers/video/nvidia.ko:\n"}),
        ),
        first_fix="Run the installer",
        excluded=("linux-modules-nvidia", "dkms"),
    ),
    case(
        "driver-kernel-incompatible",
        "Fedora with Secure Boot that rejects the module, and nouveau",
        "gtx1080ti-580",
        combine(
            host(distribution="fedora 41", kernel=FEDORA_KERNEL),
            driver(module=KernelModule.NOUVEAU),
            NOT_RESPONDING,
            with_files(
                {
                    **SECURE_BOOT,
                    f"lib/modules/{FEDORA_KERNEL}/modules.dep": "extra/nvidia/nvidia.ko.xz:\n"
                    "kernel/drivers/gpu/drm/nouveau/nouveau.ko.xz:\n",
                }
            ),
            kernel_log("Loading of module with unavailable key is rejected"),
        ),
        first_fix="mokutil",
    ),
    case(
        "driver-kernel-incompatible",
        "Ubuntu with Secure Boot and the unsigned module of a .run file",
        "l4-550",
        combine(
            host(distribution="ubuntu 24.04", kernel=NEW_KERNEL),
            driver(module=KernelModule.INSTALLED_NOT_LOADED),
            NOT_RESPONDING,
            with_files(
                {
                    **SECURE_BOOT,
                    **RUN_FILE,
                    f"lib/modules/{NEW_KERNEL}/modules.dep": "kernel/drivers/video/nvidia.ko:\n",
                }
            ),
            kernel_log("Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7"),
        ),
        first_fix="Run the installer",
        included=("nvidia-modsign-crt-",),
        excluded=("apt-get", "shim-signed"),
    ),
    case(
        "driver-library-version-mismatch",
        "the libraries of a .run file and the module of Ubuntu's packages, after a restart",
        "l4-550",
        combine(
            host(distribution="ubuntu 24.04", kernel=NEW_KERNEL),
            driver(version="535.274.02", library="550.163.01"),
            VERSION_MISMATCH,
            with_files(
                {**RUN_FILE, f"var/lib/dkms/nvidia/535.274.02/{NEW_KERNEL}/x86_64/module/nvidia.ko.zst": ""},
            ),
        ),
        first_fix="nvidia-uninstall",
        # Packages installed over a .run file with DKMS give the same facts.
        excluded=("--fix-broken", "dkms autoinstall", "nothing needs to be installed", "are of NVIDIA's .run file"),
    ),
    case(
        "driver-module-not-loaded",
        "a laptop GPU switched off by prime-select",
        "l4-550",
        combine(
            host(distribution="ubuntu 24.04"),
            driver(module=KernelModule.INSTALLED_NOT_LOADED),
            gpus(name="NVIDIA GeForce RTX 4060 Laptop GPU", device="28e0"),
            with_files(
                {
                    "lib/modprobe.d/blacklist-nvidia.conf": "# Do not modify\nblacklist nvidia\n"
                    "blacklist nvidia-drm\nblacklist nvidia-modeset\nalias nvidia off\nalias nvidia-drm off\n",
                    "etc/prime-discrete": "off\n",
                }
            ),
        ),
        first_fix="prime-select",
    ),
    case(
        "driver-module-not-loaded",
        "a hypervisor that passes its only NVIDIA GPU through",
        "l4-550",
        combine(
            host(distribution="debian 12"),
            driver(module=KernelModule.INSTALLED_NOT_LOADED),
            lambda profile: replace(profile, gpus=()),
            other_devices(PciSpec("0000:65:00.0", "0x030200", "10de", "27b8", "vfio-pci")),
            with_files({"etc/modprobe.d/vfio.conf": "blacklist nvidia\nblacklist nouveau\n"}),
        ),
        first_fix="virtual machine",
        excluded=("Remove the lines", "nstall", "modprobe"),
    ),
    case(
        "driver-module-not-loaded",
        "a GPU switched off by EnvyControl on Fedora",
        "l4-550",
        combine(
            host(distribution="fedora 42"),
            driver(module=KernelModule.INSTALLED_NOT_LOADED),
            with_files({"etc/modprobe.d/blacklist-nvidia.conf": "blacklist nvidia\nalias nvidia off\n"}),
        ),
        first_fix="/etc/modprobe.d/blacklist-nvidia.conf",
        excluded=("prime-select",),
    ),
    case(
        "nouveau-loaded",
        "a fresh installation of Rocky Linux",
        "l4-550",
        combine(host(distribution="rocky 9.5"), driver(module=KernelModule.NOUVEAU, **NO_DRIVER_LIBRARIES)),
        first_fix="nvidia-open",
    ),
)
