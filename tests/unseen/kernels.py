"""Kernel modules that are not there, are refused, are kept out, or have left their GPU to another driver."""

from __future__ import annotations

from dataclasses import replace

from gpuenv.simulate.profile import KernelModule, PciSpec
from tests.scenarios.ground import both, driver, gpus, host
from tests.scenarios.states import ANSWERS_NOT, NOTHING, beside, said
from tests.unseen.table import placed, unseen

NEW_KERNEL = "5.15.0-97-generic"
OLD_KERNEL = "5.15.0-91-generic"
SECURE_BOOT = {
    "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": "\x06\0\0\0\x01",
    "sys/kernel/security/lockdown": "none [integrity] confidentiality\n",
    "sys/module/module/parameters/sig_enforce": "N\n",
}
FEDORA_KERNEL = "6.11.4-301.fc41.x86_64"

KERNELS = (
    unseen(
        "driver-kernel-incompatible",
        "Ubuntu booted a new kernel, and DKMS has built for the one before",
        "l4-550",
        both(
            host(kernel=NEW_KERNEL),
            driver(module=KernelModule.NONE),
            ANSWERS_NOT,
            placed(
                {
                    "usr/src/nvidia-550.163.01/dkms.conf": 'PACKAGE_NAME="nvidia"\n',
                    f"var/lib/dkms/nvidia/550.163.01/{OLD_KERNEL}/x86_64/module/nvidia.ko": "",
                    f"lib/modules/{OLD_KERNEL}/modules.dep": "updates/dkms/nvidia.ko:\n",
                }
            ),
        ),
        first=f"linux-headers-{NEW_KERNEL}",
    ),
    unseen(
        "driver-kernel-incompatible",
        "Ubuntu booted a new kernel, whose package of signed modules was not installed",
        "l4-550",
        both(
            host(kernel=NEW_KERNEL),
            driver(module=KernelModule.NONE),
            ANSWERS_NOT,
            placed({f"lib/modules/{OLD_KERNEL}/modules.dep": "kernel/nvidia-550/nvidia.ko:\n"}),
        ),
        first="linux-modules-nvidia-550",
    ),
    unseen(
        "driver-kernel-incompatible",
        "Ubuntu's open modules for servers, and a new kernel without their package",
        "l4-550",
        both(
            host(kernel=NEW_KERNEL),
            driver(module=KernelModule.NONE),
            ANSWERS_NOT,
            placed({f"lib/modules/{OLD_KERNEL}/modules.dep": "kernel/nvidia-550srv-open/nvidia.ko:\n"}),
        ),
        first=f"linux-modules-nvidia-550-server-open-{NEW_KERNEL}",
    ),
    unseen(
        "driver-kernel-incompatible",
        "NVIDIA's own installer without DKMS on Ubuntu, and a new kernel",
        "l4-550",
        both(
            host(kernel=NEW_KERNEL),
            driver(module=KernelModule.NONE),
            ANSWERS_NOT,
            placed({f"lib/modules/{OLD_KERNEL}/modules.dep": "kernel/drivers/video/nvidia.ko:\n"}),
        ),
        first="Run the installer",
        unsaid=("linux-modules-nvidia", "dkms"),
    ),
    unseen(
        "driver-kernel-incompatible",
        "Fedora's Secure Boot refuses the module, so that nouveau has the GPU",
        "gtx1080ti-580",
        both(
            host(distribution="fedora 41", kernel=FEDORA_KERNEL),
            driver(module=KernelModule.NOUVEAU),
            ANSWERS_NOT,
            placed(
                {
                    **SECURE_BOOT,
                    f"lib/modules/{FEDORA_KERNEL}/modules.dep": "extra/nvidia/nvidia.ko.xz:\n"
                    "kernel/drivers/gpu/drm/nouveau/nouveau.ko.xz:\n",
                }
            ),
            said("Loading of module with unavailable key is rejected"),
        ),
        first="mokutil",
    ),
    unseen(
        "driver-module-not-loaded",
        "a laptop whose NVIDIA GPU prime-select has switched off",
        "l4-550",
        both(
            host(distribution="ubuntu 24.04"),
            driver(module=KernelModule.INSTALLED_NOT_LOADED),
            gpus(name="NVIDIA GeForce RTX 4060 Laptop GPU", device="28e0"),
            placed(
                {
                    "lib/modprobe.d/blacklist-nvidia.conf": "# Do not modify\nblacklist nvidia\n"
                    "blacklist nvidia-drm\nblacklist nvidia-modeset\nalias nvidia off\nalias nvidia-drm off\n",
                    "etc/prime-discrete": "off\n",
                }
            ),
        ),
        first="prime-select",
    ),
    unseen(
        "driver-module-not-loaded",
        "a hypervisor that passes its only NVIDIA GPU on",
        "l4-550",
        both(
            host(distribution="debian 12"),
            driver(module=KernelModule.INSTALLED_NOT_LOADED),
            lambda profile: replace(profile, gpus=()),
            beside(PciSpec("0000:65:00.0", "0x030200", "10de", "27b8", "vfio-pci")),
            placed({"etc/modprobe.d/vfio.conf": "blacklist nvidia\nblacklist nouveau\n"}),
        ),
        first="virtual machine",
        unsaid=("Remove the lines", "nstall", "modprobe"),
    ),
    unseen(
        "driver-module-not-loaded",
        "EnvyControl on Fedora has switched the GPU off",
        "l4-550",
        both(
            host(distribution="fedora 42"),
            driver(module=KernelModule.INSTALLED_NOT_LOADED),
            placed({"etc/modprobe.d/blacklist-nvidia.conf": "blacklist nvidia\nalias nvidia off\n"}),
        ),
        first="/etc/modprobe.d/blacklist-nvidia.conf",
        unsaid=("prime-select",),
    ),
    unseen(
        "nouveau-loaded",
        "Rocky Linux as it was installed",
        "l4-550",
        both(host(distribution="rocky 9.5"), driver(module=KernelModule.NOUVEAU, **NOTHING)),
        first="nvidia-open",
    ),
)
