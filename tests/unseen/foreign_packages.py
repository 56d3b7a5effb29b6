"""Drivers that unload themselves, packages of other tools, and unusual healthy machines."""

from __future__ import annotations

from gpuenv.simulate.profile import DeviceNodeSpec, KernelModule, PciSpec
from tests.scenarios.driver_states import NOT_RESPONDING, NUMPY, kernel_log, other_devices
from tests.scenarios.scenario import combine, driver, gpus, host, stub, target, variables
from tests.scenarios.target_setups import conda_package
from tests.unseen.machine_table import case, in_sequence, with_files, with_variables
from tests.unseen.target_setups import (
    arch_package,
    cuda_wheels_without_pathfinder,
    libcuda_of_another_release,
    missing_metadata,
    missing_preload,
)

L4, H100, H200, GEFORCE, PASCAL = "l4-550", "h100-535", "h200-580", "rtx5090-570", "gtx1080ti-580"
NOT_LOADED = combine(driver(module=KernelModule.INSTALLED_NOT_LOADED), NOT_RESPONDING)
ASPEED = PciSpec("0000:c3:00.0", "0x030000", "1a03", "2000", "ast")


def legacy_messages(version: str, name: str, branch: str) -> tuple[str, ...]:
    return (
        f"NVRM: The NVIDIA {name} GPU installed in this system is",
        f"NVRM:  supported through the NVIDIA {branch}.xx Legacy drivers. Please",
        "NVRM:  visit http://www.nvidia.com/object/unix.html for more",
        f"NVRM:  information.  The {version} NVIDIA driver will ignore",
        "NVRM:  this GPU.  Continuing probe...",
        "NVRM: No NVIDIA GPU found.",
    )


FOREIGN_PACKAGES = (
    case(
        "gpu-removed-from-driver",
        "R595 without a supported GPU, unloaded again",
        PASCAL,
        combine(
            NOT_LOADED,
            host(distribution="fedora 44"),
            driver(version="595.58.03", library="595.58.03", cuda=13020),
            gpus(name="NVIDIA GeForce GTX 1050", device="1c8d"),
            kernel_log(*legacy_messages("595.58.03", "GeForce GTX 1050", "580")),
        ),
        first_fix="580xx",
        excluded=("modprobe nvidia",),
    ),
    case(
        "gpu-removed-from-driver",
        "R595 without a supported GPU, with a log that only root can read",
        PASCAL,
        combine(
            NOT_LOADED,
            host(distribution="ubuntu 26.04"),
            driver(version="595.58.03", library="595.58.03", cuda=13020),
        ),
        first_fix="580",
        excluded=("modprobe nvidia",),
    ),
    case(
        "gpu-removed-from-driver",
        "Pop!_OS with the open modules for a GTX 1050",
        PASCAL,
        combine(
            NOT_LOADED,
            host(distribution="pop 24.04"),
            gpus(name="NVIDIA GeForce GTX 1050 Mobile", device="1c8d"),
            kernel_log(
                "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:1c8d)",
                "NVRM: installed in this system is not supported by open",
                "NVRM: nvidia.ko because it does not include the required GPU",
                "nvidia 0000:01:00.0: probe with driver nvidia failed with error -1",
                "NVRM: The NVIDIA probe routine failed for 1 device(s).",
                "NVRM: None of the NVIDIA devices were initialized.",
            ),
        ),
        first_fix="proprietary",
        excluded=("modprobe nvidia",),
    ),
    case(
        "gpu-too-new-for-driver",
        "Ubuntu's R550 unloaded again on an RTX 5090",
        GEFORCE,
        combine(
            NOT_LOADED,
            host(distribution="ubuntu 24.04"),
            driver(version="550.163.01", library="550.163.01", cuda=12040),
            kernel_log(
                "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2b85)",
                "NVRM: installed in this system is not supported by the",
                "NVRM: NVIDIA 550.163.01 driver release.",
                "nvidia: probe of 0000:01:00.0 failed with error -1",
            ),
        ),
        excluded=("modprobe nvidia",),
    ),
    case(
        "gpu-too-new-for-driver",
        "proprietary modules unloaded again on an RTX 5090",
        GEFORCE,
        combine(
            NOT_LOADED,
            kernel_log(
                "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2b85)",
                "NVRM: installed in this system requires use of the NVIDIA open kernel modules.",
                "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:884)",
            ),
        ),
        first_fix="open",
        excluded=("modprobe nvidia",),
    ),
    case(
        "driver-kernel-incompatible",
        "a module for another kernel configuration",
        L4,
        combine(NOT_LOADED, kernel_log("nvidia: disagrees about version of symbol module_layout")),
    ),
    case(
        "driver-install-broken",
        "a held-back libcuda",
        L4,
        combine(host(distribution="ubuntu 22.04"), stub(cuda__return__cuInit="803")),
        setup=libcuda_of_another_release,
        first_fix="libnvidia-compute-550",
    ),
    case(
        "device-node-permission",
        "a Slurm job that did not request a GPU",
        L4,
        combine(
            driver(nodes=tuple(DeviceNodeSpec(name, 0o000) for name in ("nvidia0", "nvidiactl", "nvidia-uvm"))),
            stub(cuda__return__cuInit="100", nvml__return__nvmlInitWithFlags="4", nvml__return__nvmlInit_v2="4"),
            with_variables(SLURM_JOB_ID="4711", SLURM_JOB_PARTITION="batch"),
        ),
        unprivileged=True,
        first_fix="--g",
    ),
    case(
        "gpu-removed-from-toolkit",
        "Arch's python-cupy of CUDA 13 on a GTX 1080",
        PASCAL,
        combine(
            host(distribution="arch rolling"),
            gpus(name="NVIDIA GeForce GTX 1080", device="1b80"),
            target("cupy==14.2.0", NUMPY, toolkit="13.0"),
        ),
        setup=arch_package("13"),
    ),
    case(
        "gpu-removed-from-toolkit",
        "conda's CuPy of CUDA 13 on a V100",
        "v100-580",
        target("cupy==14.1.1", NUMPY, toolkit=None),
        setup=in_sequence(conda_package("cupy-14.1.1-py312h_0", "cupy-core-14.1.1-py312h_0", "cuda-version-13.0-h_3")),
        first_fix="cuda-version=12",
    ),
    case(
        "driver-too-old-for-cuda",
        "conda's CuPy of CUDA 13 under R535",
        H100,
        target("cupy==14.1.1", NUMPY, toolkit=None),
        setup=in_sequence(conda_package("cupy-14.1.1-py312h_0", "cupy-core-14.1.1-py312h_0", "cuda-version-13.0-h_3")),
        first_fix="cuda-version=12",
    ),
    case(
        "cuda-library-missing",
        "CuPy 13 with CUDA wheels, which it does not search",
        L4,
        target("cupy-cuda12x==13.6.0", NUMPY, "nvidia-cuda-nvrtc-cu12==12.4.127", toolkit=None),
        setup=cuda_wheels_without_pathfinder,
        first_fix="14",
    ),
    case("corrupt-installation", "an interrupted installation", L4, setup=missing_metadata),
    case(
        "python-unsupported",
        "the free-threaded Python 3.13",
        L4,
        target(NUMPY),
        assumptions=("--assume", "python=3.13t"),
    ),
    case(
        "gpu-too-new-for-toolkit",
        "a B300 with CUDA 12.8",
        "gb200-580",
        combine(
            host(arch="x86_64"),
            gpus(name="NVIDIA B300 SXM6 AC", capability="10.3", device="3182"),
            target("cupy-cuda12x==13.6.0", NUMPY, toolkit="12.8"),
        ),
    ),
    case("", "a missing LD_PRELOAD library", L4, setup=missing_preload),
    case("", "a process without access to /proc and /sys", L4, host(kernel_files=False)),
    case(
        "",
        "nouveau on the display GPU, the NVIDIA module on the other",
        L4,
        combine(
            other_devices(PciSpec("0000:05:00.0", "0x030000", "10de", "1d01", "nouveau")),
            with_files({"proc/modules": "nvidia_uvm 1 0 - Live 0x0\nnvidia 1 1 - Live 0x0\nnouveau 1 1 - Live 0x0\n"}),
        ),
    ),
    case(
        "",
        "one of two GPUs passed through to a virtual machine",
        L4,
        other_devices(PciSpec("0000:65:00.0", "0x030200", "10de", "27b8", "vfio-pci")),
    ),
    case("", "a display controller on the server board", H200, other_devices(ASPEED)),
    case("", "CuPy 13 from source, with its compiled modules", L4, target("cupy==13.6.0", NUMPY), arch_package("12")),
    case(
        "",
        "an idle second GPU in exclusive mode",
        H100,
        combine(lambda profile: profile, stub(gpu__0__processes="4012:1073741824")),
    ),
    case(
        "",
        "variables of a proxy and of a module system",
        L4,
        setup=variables(CUDA_HOME="/usr/local/cuda-12.4", LOADEDMODULES="cuda/12.4"),
    ),
)
