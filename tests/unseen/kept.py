"""GPUs that another kernel driver has, kernels of several kinds, and modules under the names of Debian's packages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuenv.simulate.profile import KernelModule, PciSpec
from tests.scenarios.ground import both, driver, host
from tests.scenarios.states import ANSWERS_NOT, NOTHING, beside, said
from tests.unseen.table import placed, unseen

if TYPE_CHECKING:
    from tests.scenarios.ground import Change

L4, PASCAL, ADA = "l4-550", "gtx1080ti-580", "rtx4090-545"
INCOMPATIBLE = "driver-kernel-incompatible"
NOT_LOADED = driver(module=KernelModule.INSTALLED_NOT_LOADED)
TRIXIE = "6.12.73+deb13-amd64"
NOVA_LOADED = placed({"proc/modules": "nova_core 65536 0 - Live 0x0\next4 1 0 - Live 0x0\n"})
OF_DEBIAN = placed(
    {
        f"lib/modules/{TRIXIE}/modules.dep": "kernel/drivers/gpu/drm/nouveau/nouveau.ko.xz:\n"
        "updates/dkms/nvidia-current-open.ko.xz:\nupdates/dkms/nvidia-current-open-uvm.ko.xz:\n",
        f"var/lib/dkms/nvidia-current-open/550.163.01/{TRIXIE}/x86_64/module/nvidia-current-open.ko.xz": "",
        "etc/modprobe.d/nvidia.conf": "install nvidia modprobe -i nvidia-current-open $CMDLINE_OPTS\n",
    }
)


def held_by(name: str, pci: str = "0000:65:00.0") -> Change:
    """The machine's only NVIDIA GPU, in the hands of another kernel driver."""
    gpu = PciSpec(pci, "0x030200", "10de", "27b8", name)
    return both(lambda profile: replace(profile, gpus=()), beside(gpu))


def debian_13(module: KernelModule) -> Change:
    """Its own packages of the open modules, built for the running kernel."""
    folder = "usr/lib/x86_64-linux-gnu/nvidia/current"
    release = {"version": "550.163.01", "library": "550.163.01", "cuda": 12040, "folder": folder}
    return both(host(distribution="debian 13", kernel=TRIXIE), driver(module=module, **release), ANSWERS_NOT, OF_DEBIAN)


def built_before(distribution: str, kernel: str, former: str) -> Change:
    """DKMS has built the module for the former kernel, and a newer one runs."""
    return both(
        host(distribution=distribution, kernel=kernel),
        driver(module=KernelModule.NONE),
        ANSWERS_NOT,
        placed(
            {
                f"lib/modules/{former}/modules.dep": "extra/nvidia.ko.xz:\n",
                f"var/lib/dkms/nvidia/550.163.01/{former}/x86_64/module/nvidia.ko": "",
            }
        ),
    )


KEPT = (
    unseen(
        "driver-module-not-loaded",
        "Xen keeps the only GPU for a guest",
        L4,
        both(host(distribution="qubes 4.2"), NOT_LOADED, held_by("pciback")),
        first="virtual machine",
        unsaid=("nstall", "modprobe"),
    ),
    unseen(
        "driver-module-not-loaded",
        "a Grace Hopper that keeps its GPU for a guest, by the driver for that",
        L4,
        both(host(distribution="ubuntu 24.04"), NOT_LOADED, held_by("nvgrace_gpu_vfio_pci", "0009:01:00.0")),
        first="virtual machine",
        unsaid=("nstall", "modprobe"),
    ),
    unseen(
        "no-driver",
        "a hypervisor without the driver, whose only GPU pci-stub keeps",
        L4,
        both(host(distribution="debian 12"), driver(module=KernelModule.NONE, **NOTHING), held_by("pci-stub")),
        first="virtual machine",
        unsaid=("nstall", "modprobe"),
    ),
    unseen(
        "",
        "one of two cards is kept by Xen",
        L4,
        beside(PciSpec("0000:65:00.0", "0x030200", "10de", "27b8", "pciback")),
    ),
    unseen(
        "driver-module-not-loaded",
        "the kernel's framebuffer driver has the card",
        PASCAL,
        both(
            host(distribution="debian 12"),
            NOT_LOADED,
            held_by("nvidiafb"),
            said("NVRM: The NVIDIA probe routine was not called for 1 device(s)."),
        ),
        first="blacklist nvidiafb",
        unsaid=("nstall",),
    ),
    unseen(
        "nouveau-loaded",
        "a kernel whose nova has the card before NVIDIA's module",
        L4,
        both(
            host(distribution="fedora 44", kernel="6.19.3-300.fc44.x86_64"),
            NOT_LOADED,
            held_by("NovaCore"),
            NOVA_LOADED,
        ),
        first="blacklist nova_core",
        unsaid=("dnf", "nouveau"),
    ),
    unseen(
        "nouveau-loaded",
        "Fedora as it was installed, with nova",
        L4,
        both(
            host(distribution="fedora 44", kernel="6.19.3-300.fc44.x86_64"),
            driver(module=KernelModule.NONE, **NOTHING),
            held_by("NovaCore"),
            NOVA_LOADED,
        ),
        first="akmod-nvidia",
        named=("blacklist nova_core",),
    ),
    unseen(
        "nouveau-loaded",
        "Silverblue with a layered driver, and nova before it",
        L4,
        both(
            host(distribution="fedora 44", kernel="6.19.3-300.fc44.x86_64"),
            NOT_LOADED,
            held_by("NovaCore"),
            NOVA_LOADED,
            placed({"run/ostree-booted": ""}),
        ),
        first="--append=modprobe.blacklist=nova_core",
        unsaid=("blacklist=nouveau",),
    ),
    unseen(
        "",
        "nova has the card for the display, NVIDIA's module the other",
        L4,
        beside(PciSpec("0000:65:00.0", "0x030000", "10de", "27b8", "NovaCore")),
    ),
    unseen(
        "nouveau-loaded",
        "Debian's open modules are built, and nouveau has the card",
        ADA,
        debian_13(KernelModule.NOUVEAU),
        first="blacklist nouveau",
        unsaid=("apt-get",),
    ),
    unseen(
        "driver-module-not-loaded",
        "Debian's open modules are built and not loaded",
        ADA,
        debian_13(KernelModule.NONE),
        first="modprobe nvidia",
        unsaid=("linux-headers",),
    ),
    unseen(
        "",
        "Debian's open modules at work",
        ADA,
        both(debian_13(KernelModule.OPEN), lambda p: replace(p, stub={}, toolkit="12.4")),
    ),
    unseen(
        INCOMPATIBLE,
        "Debian's tesla-470 lies in the folder of the kernel before",
        "t4-470",
        both(
            host(distribution="debian 11", kernel="5.10.0-32-amd64"),
            driver(module=KernelModule.NONE),
            ANSWERS_NOT,
            placed({"lib/modules/5.10.0-28-amd64/modules.dep": "updates/dkms/nvidia-tesla-470.ko:\n"}),
        ),
        first="linux-headers-5.10.0-32-amd64",
    ),
    unseen(
        INCOMPATIBLE,
        "Proxmox without the headers of its new kernel",
        L4,
        built_before("debian 12", "6.8.12-9-pve", "6.8.12-4-pve"),
        first="install proxmox-headers-6.8.12-9-pve",
        unsaid=("linux-headers",),
    ),
    unseen(
        INCOMPATIBLE,
        "Oracle's own kernel without its headers",
        L4,
        built_before("ol 9.5", "5.15.0-306.177.4.el9uek.x86_64", "5.15.0-206.153.7.el9uek.x86_64"),
        first="install kernel-uek-devel-5.15.0-306.177.4.el9uek.x86_64",
        unsaid=("install kernel-devel",),
    ),
    unseen(
        INCOMPATIBLE,
        "Amazon Linux 2023 moved on to its second kernel",
        L4,
        built_before("amzn 2023", "6.12.55-74.119.amzn2023.x86_64", "6.1.156-177.286.amzn2023.x86_64"),
        first="install kernel6.12-devel-6.12.55-74.119.amzn2023.x86_64",
        unsaid=("install kernel-devel",),
    ),
    unseen(
        INCOMPATIBLE,
        "SUSE's kernel for Azure",
        L4,
        built_before("sles 15.6", "6.4.0-150600.8.40-azure", "6.4.0-150600.8.37-azure"),
        first="install kernel-azure-devel",
        unsaid=("kernel-default",),
    ),
)
