"""GPUs bound to another kernel driver, kernels of several flavors, and modules with Debian's names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuenv.simulate.profile import KernelModule, PciSpec
from tests.scenarios.driver_states import NO_DRIVER_LIBRARIES, NOT_RESPONDING, kernel_log, other_devices
from tests.scenarios.scenario import combine, driver, host
from tests.unseen.machine_table import case, with_files

if TYPE_CHECKING:
    from tests.scenarios.scenario import Change

L4, PASCAL, ADA = "l4-550", "gtx1080ti-580", "rtx4090-545"
INCOMPATIBLE = "driver-kernel-incompatible"
NOT_LOADED = driver(module=KernelModule.INSTALLED_NOT_LOADED)
TRIXIE = "6.12.73+deb13-amd64"
NOVA_LOADED = with_files({"proc/modules": "nova_core 65536 0 - Live 0x0\next4 1 0 - Live 0x0\n"})
DEBIAN_MODULES = with_files(
    {
        f"lib/modules/{TRIXIE}/modules.dep": "kernel/drivers/gpu/drm/nouveau/nouveau.ko.xz:\n"
        "updates/dkms/nvidia-current-open.ko.xz:\nupdates/dkms/nvidia-current-open-uvm.ko.xz:\n",
        f"var/lib/dkms/nvidia-current-open/550.163.01/{TRIXIE}/x86_64/module/nvidia-current-open.ko.xz": "",
        "etc/modprobe.d/nvidia.conf": "install nvidia modprobe -i nvidia-current-open $CMDLINE_OPTS\n",
    }
)


def bound_to(name: str, pci: str = "0000:65:00.0") -> Change:
    """The only NVIDIA GPU is bound to another kernel driver."""
    gpu = PciSpec(pci, "0x030200", "10de", "27b8", name)
    return combine(lambda profile: replace(profile, gpus=()), other_devices(gpu))


def debian_13(module: KernelModule) -> Change:
    """Debian's packages of the open modules, built for the running kernel."""
    folder = "usr/lib/x86_64-linux-gnu/nvidia/current"
    release = {"version": "550.163.01", "library": "550.163.01", "cuda": 12040, "folder": folder}
    return combine(
        host(distribution="debian 13", kernel=TRIXIE), driver(module=module, **release), NOT_RESPONDING, DEBIAN_MODULES
    )


def built_for_former_kernel(distribution: str, kernel: str, former: str) -> Change:
    """DKMS built the module for the former kernel, and a newer one runs."""
    return combine(
        host(distribution=distribution, kernel=kernel),
        driver(module=KernelModule.NONE),
        NOT_RESPONDING,
        with_files(
            {
                f"lib/modules/{former}/modules.dep": "extra/nvidia.ko.xz:\n",
                f"var/lib/dkms/nvidia/550.163.01/{former}/x86_64/module/nvidia.ko": "",
            }
        ),
    )


BOUND_GPUS = (
    case(
        "driver-module-not-loaded",
        "the only GPU reserved for a Xen guest",
        L4,
        combine(host(distribution="qubes 4.2"), NOT_LOADED, bound_to("pciback")),
        first_fix="virtual machine",
        excluded=("nstall", "modprobe"),
    ),
    case(
        "driver-module-not-loaded",
        "a Grace Hopper with its GPU reserved for a guest",
        L4,
        combine(host(distribution="ubuntu 24.04"), NOT_LOADED, bound_to("nvgrace_gpu_vfio_pci", "0009:01:00.0")),
        first_fix="virtual machine",
        excluded=("nstall", "modprobe"),
    ),
    case(
        "no-driver",
        "a hypervisor without the driver and its only GPU bound to pci-stub",
        L4,
        combine(
            host(distribution="debian 12"),
            driver(module=KernelModule.NONE, **NO_DRIVER_LIBRARIES),
            bound_to("pci-stub"),
        ),
        first_fix="virtual machine",
        excluded=("nstall", "modprobe"),
    ),
    case(
        "",
        "one of two GPUs reserved for a Xen guest",
        L4,
        other_devices(PciSpec("0000:65:00.0", "0x030200", "10de", "27b8", "pciback")),
    ),
    case(
        "driver-module-not-loaded",
        "a GPU bound to the kernel's framebuffer driver",
        PASCAL,
        combine(
            host(distribution="debian 12"),
            NOT_LOADED,
            bound_to("nvidiafb"),
            kernel_log("NVRM: The NVIDIA probe routine was not called for 1 device(s)."),
        ),
        first_fix="blacklist nvidiafb",
        excluded=("nstall",),
    ),
    case(
        "nouveau-loaded",
        "a GPU bound to nova before the NVIDIA module loads",
        L4,
        combine(
            host(distribution="fedora 44", kernel="6.19.3-300.fc44.x86_64"),
            NOT_LOADED,
            bound_to("NovaCore"),
            NOVA_LOADED,
        ),
        first_fix="blacklist nova_core",
        excluded=("dnf",),
    ),
    case(
        "nouveau-loaded",
        "a fresh installation of Fedora with nova",
        L4,
        combine(
            host(distribution="fedora 44", kernel="6.19.3-300.fc44.x86_64"),
            driver(module=KernelModule.NONE, **NO_DRIVER_LIBRARIES),
            bound_to("NovaCore"),
            NOVA_LOADED,
        ),
        first_fix="akmod-nvidia",
        included=("modprobe.blacklist=nouveau,nova_core",),
    ),
    case(
        "nouveau-loaded",
        "Silverblue with a layered driver and nova",
        L4,
        combine(
            host(distribution="fedora 44", kernel="6.19.3-300.fc44.x86_64"),
            NOT_LOADED,
            bound_to("NovaCore"),
            NOVA_LOADED,
            with_files({"run/ostree-booted": ""}),
        ),
        first_fix="--append=modprobe.blacklist=nouveau,nova_core",
    ),
    case(
        "",
        "nova on the display GPU, the NVIDIA module on the other",
        L4,
        other_devices(PciSpec("0000:65:00.0", "0x030000", "10de", "27b8", "NovaCore")),
    ),
    case(
        "nouveau-loaded",
        "Debian's open modules and a GPU bound to nouveau",
        ADA,
        debian_13(KernelModule.NOUVEAU),
        first_fix="blacklist nouveau",
        excluded=("apt-get",),
    ),
    case(
        "driver-module-not-loaded",
        "Debian's open modules, built and not loaded",
        ADA,
        debian_13(KernelModule.NONE),
        first_fix="modprobe nvidia",
        excluded=("linux-headers",),
    ),
    case(
        "",
        "Debian's open modules, loaded",
        ADA,
        combine(debian_13(KernelModule.OPEN), lambda p: replace(p, stub={}, toolkit="12.4")),
    ),
    case(
        INCOMPATIBLE,
        "Debian's tesla-470 for the former kernel only",
        "t4-470",
        combine(
            host(distribution="debian 11", kernel="5.10.0-32-amd64"),
            driver(module=KernelModule.NONE),
            NOT_RESPONDING,
            with_files({"lib/modules/5.10.0-28-amd64/modules.dep": "updates/dkms/nvidia-tesla-470.ko:\n"}),
        ),
        first_fix="linux-headers-5.10.0-32-amd64",
    ),
    case(
        INCOMPATIBLE,
        "Proxmox without the headers of its new kernel",
        L4,
        built_for_former_kernel("debian 12", "6.8.12-9-pve", "6.8.12-4-pve"),
        first_fix="install proxmox-headers-6.8.12-9-pve",
        excluded=("linux-headers",),
    ),
    case(
        INCOMPATIBLE,
        "Oracle's kernel without its headers",
        L4,
        built_for_former_kernel("ol 9.5", "5.15.0-306.177.4.el9uek.x86_64", "5.15.0-206.153.7.el9uek.x86_64"),
        first_fix="install kernel-uek-devel-5.15.0-306.177.4.el9uek.x86_64",
        excluded=("install kernel-devel",),
    ),
    case(
        INCOMPATIBLE,
        "Amazon Linux 2023 with its newer kernel",
        L4,
        built_for_former_kernel("amzn 2023", "6.12.55-74.119.amzn2023.x86_64", "6.1.156-177.286.amzn2023.x86_64"),
        first_fix="install kernel6.12-devel-6.12.55-74.119.amzn2023.x86_64",
        excluded=("install kernel-devel",),
    ),
    case(
        INCOMPATIBLE,
        "SUSE's kernel for Azure",
        L4,
        built_for_former_kernel("sles 15.6", "6.4.0-150600.8.40-azure", "6.4.0-150600.8.37-azure"),
        first_fix="install kernel-azure-devel",
        excluded=("kernel-default",),
    ),
)
