"""Machines written after others of their kind were mended: the same classes in other clothes, and sound ones beside."""

from __future__ import annotations

from gpuenv.simulate.profile import ContainerEngine, KernelModule, PciSpec, PciVisibility
from tests.scenarios.ground import both, driver, gpus, host, target
from tests.scenarios.spoiling import listed_and_gone
from tests.scenarios.states import DIFFERENT, NONE_LISTED, NOTHING, NUMPY, beside, said
from tests.unseen.quiet import INTEL
from tests.unseen.spoilt import loader_without
from tests.unseen.table import given, placed, unseen
from tests.unseen.unbooted import NOUVEAU_ALONE

L4, H200, PASCAL, GEFORCE = "l4-550", "h200-580", "gtx1080ti-580", "rtx5090-570"
OPERATORS = "run/nvidia/driver/usr/lib/x86_64-linux-gnu"
NSPAWN = {"run/systemd/container": "systemd-nspawn\n", "proc/1/environ": "container=systemd-nspawn\0"}

AGAIN = (
    unseen(
        "driver-install-broken",
        "NixOS with a Python that was not made for it",
        "nixos-rtx4090",
        spoil=loader_without("/nix/store/"),
        first="/run/opengl-driver/lib",
        unsaid=("nstall", "apt-get"),
    ),
    unseen(
        "driver-install-broken",
        "a pod of Google's with an image whose loader does not know the mounted folder",
        "gke-l4",
        spoil=loader_without("/usr/local/nvidia"),
        first="/usr/local/nvidia/lib64",
        unsaid=("resources.limits", "apt-get"),
    ),
    unseen(
        "nouveau-loaded",
        "openSUSE MicroOS as it was installed",
        L4,
        both(host(distribution="opensuse-microos 20261110"), NOUVEAU_ALONE),
        first="transactional-update",
        unsaid=("zypper install",),
    ),
    unseen(
        "no-driver",
        "RHEL for Edge",
        L4,
        both(
            host(distribution="rhel 9.6"),
            driver(module=KernelModule.NONE, **NOTHING),
            placed({"run/ostree-booted": ""}),
        ),
        named=("rpm-ostree",),
        unsaid=("dnf",),
    ),
    unseen(
        "gpu-too-new-for-driver",
        "NixOS with the closed modules for an RTX 5090",
        GEFORCE,
        both(
            host(distribution="nixos 25.05", kernel="6.12.30"),
            driver(module=KernelModule.PROPRIETARY),
            gpus(shown=PciVisibility.BUS),
            NONE_LISTED,
            said("NVRM: installed in this system requires use of the NVIDIA open kernel modules."),
        ),
        first="hardware.nvidia.open",
        unsaid=("apt-get",),
    ),
    unseen(
        "driver-library-version-mismatch",
        "NixOS that was switched to a new driver and not restarted",
        "nixos-rtx4090",
        both(driver(version="535.154.05"), DIFFERENT),
        first="eboot",
        unsaid=("apt-get", "ldconfig"),
    ),
    unseen(
        "no-driver",
        "Debian 13 with a GTX 1080",
        PASCAL,
        both(
            host(distribution="debian 13"),
            driver(module=KernelModule.NONE, **NOTHING),
            gpus(name="NVIDIA GeForce GTX 1080", device="1b80"),
        ),
        first="nvidia-driver",
        unsaid=("nvidia-open",),
    ),
    unseen(
        "gpu-hardware-fault",
        "a GPU in a box beside the laptop, whose cable was pulled",
        GEFORCE,
        both(
            gpus(on_bus=False, shown=PciVisibility.BUS),
            NONE_LISTED,
            beside(INTEL),
            said(
                "pcieport 0000:04:01.0: pciehp: Slot(1): Card not present",
                "NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
                "NVRM: GPU 0000:05:00.0: GPU has fallen off the bus.",
            ),
        ),
        unsaid=("another host",),
    ),
    unseen(
        "container-without-gpu",
        "a machine of systemd-nspawn's without any node",
        L4,
        both(placed(NSPAWN), host(distribution="debian 12"), driver(nodes=(), **NOTHING)),
        first="/dev/nvidia",
        unsaid=("modprobe", "apt-get"),
    ),
    unseen(
        "container-toolkit-broken",
        "a privileged pod that asked for no GPU",
        L4,
        both(host(container=ContainerEngine.KUBERNETES), driver(**NOTHING)),
        named=("runtimeClassName",),
    ),
    unseen(
        "wrong-cupy-wheel-for-cuda-major",
        "a wheel of CUDA 11 beside CUDA 12 alone",
        L4,
        target("cupy-cuda11x==13.6.0", NUMPY),
        first="cupy-cuda12x",
        unsaid=("pdate the driver",),
    ),
    unseen(
        "",
        "a laptop whose card did not wake this morning, and does now",
        L4,
        both(
            beside(INTEL),
            said(
                "nvidia 0000:31:00.0: Unable to change power state from D3cold to D0, device inaccessible",
                "NVRM: fallen off the bus and is not responding to commands.",
                "nvidia: probe of 0000:31:00.0 failed with error -1",
                "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025",
            ),
        ),
    ),
    unseen(
        "",
        "JAX of CUDA 13 beside",
        H200,
        target(
            "cupy-cuda13x==14.2.0",
            NUMPY,
            "jax==0.8.0",
            "jaxlib==0.8.0",
            "jax-cuda13-plugin==0.8.0",
            "jax-cuda13-pjrt==0.8.0",
        ),
    ),
    unseen("", "compiled files that somebody has swept away", L4, spoil=listed_and_gone("cupy/__pycache__/x.pyc")),
    unseen(
        "",
        "Docker within WSL with its GPU",
        "wsl-rtx3060-560",
        both(host(container=ContainerEngine.DOCKER), given(NVIDIA_VISIBLE_DEVICES="all")),
    ),
    unseen(
        "",
        "a node with a driver of its own, and what a driver's container of another release has left",
        L4,
        placed({f"{OPERATORS}/{name}.so.535.183.01": "" for name in ("libcuda", "libnvidia-ml")}),
    ),
    unseen(
        "",
        "libraries of a former driver in a folder that only clouds use",
        L4,
        placed({f"usr/local/nvidia/lib64/{name}.so.470.256.02": "" for name in ("libcuda", "libnvidia-ml")}),
    ),
    unseen(
        "",
        "the file of a program that switches the GPU off, put aside",
        L4,
        both(
            beside(INTEL),
            placed({"etc/modprobe.d/blacklist-nvidia.conf.disabled": "blacklist nvidia\nalias nvidia off\n"}),
        ),
    ),
    unseen(
        "",
        "a build of DKMS that failed for a kernel that does not run",
        L4,
        both(
            host(distribution="ubuntu 24.04", kernel="6.8.0-60-generic"),
            placed(
                {
                    "var/lib/dkms/nvidia/550.163.01/6.8.0-60-generic/x86_64/module/nvidia.ko.zst": "",
                    "var/lib/dkms/nvidia/550.163.01/build/make.log": "DKMS make.log for nvidia-550.163.01 for kernel "
                    "6.17.0-8-generic (x86_64)\n/bin/sh: 1: gcc-15: not found\n",
                }
            ),
        ),
    ),
    unseen(
        "",
        "a Fermi for the display, of which the driver says that it ignores it",
        L4,
        both(
            beside(PciSpec("0000:05:00.0", "0x030000", "10de", "06dd", None)),
            said(
                "NVRM: The NVIDIA Quadro 4000 GPU installed in this system is",
                "NVRM:  supported through the NVIDIA 390.xx Legacy drivers. Please",
                "NVRM:  this GPU.  Continuing probe...",
            ),
        ),
    ),
    unseen(
        "visible-devices-hide-gpu",
        "a variable that hides all, on an image that packages are layered onto",
        L4,
        both(
            host(distribution="fedora 43", kernel="6.17.8-300.fc43.x86_64"),
            driver(folder="usr/lib64"),
            placed({"run/ostree-booted": "", "proc/cmdline": "ostree=/ostree/boot.0 modprobe.blacklist=nouveau\n"}),
            given(CUDA_VISIBLE_DEVICES="-1"),
        ),
        first="CUDA_VISIBLE_DEVICES",
        unsaid=("rpm-ostree",),
    ),
)
