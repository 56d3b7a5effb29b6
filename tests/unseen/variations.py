"""Variations of earlier machines: the same faults on other systems, and similar healthy machines."""

from __future__ import annotations

from gpuenv.simulate.profile import ContainerEngine, KernelModule, PciSpec, PciVisibility
from tests.scenarios.driver_states import (
    NO_DEVICES,
    NO_DRIVER_LIBRARIES,
    NUMPY,
    VERSION_MISMATCH,
    kernel_log,
    other_devices,
)
from tests.scenarios.scenario import combine, driver, gpus, host, stub, target
from tests.scenarios.target_setups import missing_file
from tests.unseen.harmless_facts import INTEL
from tests.unseen.machine_table import case, with_files, with_variables
from tests.unseen.missing_drivers import NOUVEAU_ONLY
from tests.unseen.target_setups import conda_compat, loader_path_without

L4, H200, PASCAL, GEFORCE = "l4-550", "h200-580", "gtx1080ti-580", "rtx5090-570"
OPERATOR_LIBRARIES = "run/nvidia/driver/usr/lib/x86_64-linux-gnu"
NSPAWN = {"run/systemd/container": "systemd-nspawn\n", "proc/1/environ": "container=systemd-nspawn\0"}

VARIATIONS = (
    case(
        "driver-install-broken",
        "NixOS with a Python from outside its store",
        "nixos-rtx4090",
        setup=loader_path_without("/nix/store/"),
        first_fix="/run/opengl-driver/lib",
        excluded=("nstall", "apt-get"),
    ),
    case(
        "driver-install-broken",
        "a GKE pod whose loader does not search the mounted directory",
        "gke-l4",
        setup=loader_path_without("/usr/local/nvidia"),
        first_fix="/usr/local/nvidia/lib64",
        excluded=("resources.limits", "apt-get"),
    ),
    case(
        "forward-compat-unsupported",
        "conda's cuda-compat on LD_LIBRARY_PATH, and a GeForce",
        "rtx4090-545",
        stub(cuda__return__cuInit="804"),
        setup=conda_compat,
        first_fix="export LD_LIBRARY_PATH=",
        excluded=("/etc/ld.so.conf",),
    ),
    case(
        "nouveau-loaded",
        "a fresh installation of openSUSE MicroOS",
        L4,
        combine(host(distribution="opensuse-microos 20261110"), NOUVEAU_ONLY),
        first_fix="transactional-update",
        excluded=("zypper install",),
    ),
    case(
        "no-driver",
        "RHEL for Edge",
        L4,
        combine(
            host(distribution="rhel 9.6"),
            driver(module=KernelModule.NONE, **NO_DRIVER_LIBRARIES),
            with_files({"run/ostree-booted": ""}),
        ),
        included=("rpm-ostree",),
        excluded=("dnf",),
    ),
    case(
        "gpu-too-new-for-driver",
        "NixOS with the proprietary modules on an RTX 5090",
        GEFORCE,
        combine(
            host(distribution="nixos 25.05", kernel="6.12.30"),
            driver(module=KernelModule.PROPRIETARY),
            gpus(shown=PciVisibility.BUS),
            NO_DEVICES,
            kernel_log("NVRM: installed in this system requires use of the NVIDIA open kernel modules."),
        ),
        first_fix="hardware.nvidia.open",
        excluded=("apt-get",),
    ),
    case(
        "driver-library-version-mismatch",
        "NixOS with a new driver before the restart",
        "nixos-rtx4090",
        combine(driver(version="535.154.05"), VERSION_MISMATCH),
        first_fix="eboot",
        excluded=("apt-get", "ldconfig"),
    ),
    case(
        "no-driver",
        "Debian 13 with a GTX 1080",
        PASCAL,
        combine(
            host(distribution="debian 13"),
            driver(module=KernelModule.NONE, **NO_DRIVER_LIBRARIES),
            gpus(name="NVIDIA GeForce GTX 1080", device="1b80"),
        ),
        first_fix="nvidia-driver",
        excluded=("nvidia-open",),
    ),
    case(
        "gpu-hardware-fault",
        "an unplugged external GPU",
        GEFORCE,
        combine(
            gpus(on_bus=False, shown=PciVisibility.BUS),
            NO_DEVICES,
            other_devices(INTEL),
            kernel_log(
                "pcieport 0000:04:01.0: pciehp: Slot(1): Card not present",
                "NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
                "NVRM: GPU 0000:05:00.0: GPU has fallen off the bus.",
            ),
        ),
        excluded=("another host",),
    ),
    case(
        "container-without-gpu",
        "a systemd-nspawn container without device nodes",
        L4,
        combine(with_files(NSPAWN), host(distribution="debian 12"), driver(nodes=(), **NO_DRIVER_LIBRARIES)),
        first_fix="/dev/nvidia",
        excluded=("modprobe", "apt-get"),
    ),
    case(
        "container-toolkit-broken",
        "a privileged pod that requested no GPU",
        L4,
        combine(host(container=ContainerEngine.KUBERNETES), driver(**NO_DRIVER_LIBRARIES)),
        included=("runtimeClassName",),
    ),
    case(
        "wrong-cupy-wheel-for-cuda-major",
        "a wheel of CUDA 11 with CUDA 12 only",
        L4,
        target("cupy-cuda11x==13.6.0", NUMPY),
        first_fix="cupy-cuda12x",
        excluded=("pdate the driver",),
    ),
    case(
        "",
        "a laptop GPU that works again after a failed wake-up",
        L4,
        combine(
            other_devices(INTEL),
            kernel_log(
                "nvidia 0000:31:00.0: Unable to change power state from D3cold to D0, device inaccessible",
                "NVRM: fallen off the bus and is not responding to commands.",
                "nvidia: probe of 0000:31:00.0 failed with error -1",
                "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025",
            ),
        ),
    ),
    case(
        "",
        "JAX of CUDA 13",
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
    case("", "deleted .pyc files", L4, setup=missing_file("cupy/__pycache__/x.pyc")),
    case(
        "",
        "Docker in WSL with a GPU",
        "wsl-rtx3060-560",
        combine(host(container=ContainerEngine.DOCKER), with_variables(NVIDIA_VISIBLE_DEVICES="all")),
    ),
    case(
        "",
        "a node with leftovers of another release's driver container",
        L4,
        with_files({f"{OPERATOR_LIBRARIES}/{name}.so.535.183.01": "" for name in ("libcuda", "libnvidia-ml")}),
    ),
    case(
        "",
        "libraries of a former driver in /usr/local/nvidia",
        L4,
        with_files({f"usr/local/nvidia/lib64/{name}.so.470.256.02": "" for name in ("libcuda", "libnvidia-ml")}),
    ),
    case(
        "",
        "a disabled modprobe file that would switch the GPU off",
        L4,
        combine(
            other_devices(INTEL),
            with_files({"etc/modprobe.d/blacklist-nvidia.conf.disabled": "blacklist nvidia\nalias nvidia off\n"}),
        ),
    ),
    case(
        "",
        "a failed DKMS build for another kernel",
        L4,
        combine(
            host(distribution="ubuntu 24.04", kernel="6.8.0-60-generic"),
            with_files(
                {
                    "var/lib/dkms/nvidia/550.163.01/6.8.0-60-generic/x86_64/module/nvidia.ko.zst": "",
                    "var/lib/dkms/nvidia/550.163.01/build/make.log": "DKMS make.log for nvidia-550.163.01 for kernel "
                    "6.17.0-8-generic (x86_64)\n/bin/sh: 1: gcc-15: not found\n",
                }
            ),
        ),
    ),
    case(
        "",
        "a Fermi display GPU that the driver ignores",
        L4,
        combine(
            other_devices(PciSpec("0000:05:00.0", "0x030000", "10de", "06dd", None)),
            kernel_log(
                "NVRM: The NVIDIA Quadro 4000 GPU installed in this system is",
                "NVRM:  supported through the NVIDIA 390.xx Legacy drivers. Please",
                "NVRM:  this GPU.  Continuing probe...",
            ),
        ),
    ),
    case(
        "visible-devices-hide-gpu",
        "a variable that hides all GPUs on an ostree system",
        L4,
        combine(
            host(distribution="fedora 43", kernel="6.17.8-300.fc43.x86_64"),
            driver(folder="usr/lib64"),
            with_files({"run/ostree-booted": "", "proc/cmdline": "ostree=/ostree/boot.0 modprobe.blacklist=nouveau\n"}),
            with_variables(CUDA_VISIBLE_DEVICES="-1"),
        ),
        first_fix="CUDA_VISIBLE_DEVICES",
        excluded=("rpm-ostree",),
    ),
)
