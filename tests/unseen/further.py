"""Drivers that load nothing, environments of other tools, and more that looks odd."""

from __future__ import annotations

from gpuenv.simulate.profile import DeviceNodeSpec, KernelModule, PciSpec
from tests.scenarios.ground import both, driver, gpus, host, stub, target, variables
from tests.scenarios.spoiling import conda_package
from tests.scenarios.states import ANSWERS_NOT, NUMPY, beside, said
from tests.unseen.spoilt import (
    another_release_of_libcuda,
    arch_package,
    metadata_lost,
    nothing_to_preload,
    wheels_of_cuda_that_nobody_finds,
)
from tests.unseen.table import after, given, placed, unseen

L4, H100, H200, GEFORCE, PASCAL = "l4-550", "h100-535", "h200-580", "rtx5090-570", "gtx1080ti-580"
NOT_LOADED = both(driver(module=KernelModule.INSTALLED_NOT_LOADED), ANSWERS_NOT)
ASPEED = PciSpec("0000:c3:00.0", "0x030000", "1a03", "2000", "ast")


def legacy(version: str, name: str, branch: str) -> tuple[str, ...]:
    return (
        f"NVRM: The NVIDIA {name} GPU installed in this system is",
        f"NVRM:  supported through the NVIDIA {branch}.xx Legacy drivers. Please",
        "NVRM:  visit http://www.nvidia.com/object/unix.html for more",
        f"NVRM:  information.  The {version} NVIDIA driver will ignore",
        "NVRM:  this GPU.  Continuing probe...",
        "NVRM: No NVIDIA GPU found.",
    )


FURTHER = (
    unseen(
        "gpu-removed-from-driver",
        "R595 found no GPU of its own and has left the kernel",
        PASCAL,
        both(
            NOT_LOADED,
            host(distribution="fedora 44"),
            driver(version="595.58.03", library="595.58.03", cuda=13020),
            gpus(name="NVIDIA GeForce GTX 1050", device="1c8d"),
            said(*legacy("595.58.03", "GeForce GTX 1050", "580")),
        ),
        first="580xx",
        unsaid=("modprobe nvidia",),
    ),
    unseen(
        "gpu-removed-from-driver",
        "the same, with a log that only root may read",
        PASCAL,
        both(
            NOT_LOADED,
            host(distribution="ubuntu 26.04"),
            driver(version="595.58.03", library="595.58.03", cuda=13020),
        ),
        first="580",
        unsaid=("modprobe nvidia",),
    ),
    unseen(
        "gpu-removed-from-driver",
        "Pop!_OS with the open modules for a GTX 1050",
        PASCAL,
        both(
            NOT_LOADED,
            host(distribution="pop 24.04"),
            gpus(name="NVIDIA GeForce GTX 1050 Mobile", device="1c8d"),
            said(
                "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:1c8d)",
                "NVRM: installed in this system is not supported by open",
                "NVRM: nvidia.ko because it does not include the required GPU",
                "nvidia 0000:01:00.0: probe with driver nvidia failed with error -1",
                "NVRM: The NVIDIA probe routine failed for 1 device(s).",
                "NVRM: None of the NVIDIA devices were initialized.",
            ),
        ),
        first="proprietary",
        unsaid=("modprobe nvidia",),
    ),
    unseen(
        "gpu-too-new-for-driver",
        "Ubuntu's R550 left the kernel again on a machine with an RTX 5090",
        GEFORCE,
        both(
            NOT_LOADED,
            host(distribution="ubuntu 24.04"),
            driver(version="550.163.01", library="550.163.01", cuda=12040),
            said(
                "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2b85)",
                "NVRM: installed in this system is not supported by the",
                "NVRM: NVIDIA 550.163.01 driver release.",
                "nvidia: probe of 0000:01:00.0 failed with error -1",
            ),
        ),
        unsaid=("modprobe nvidia",),
    ),
    unseen(
        "gpu-too-new-for-driver",
        "the proprietary modules left the kernel again on a machine with an RTX 5090",
        GEFORCE,
        both(
            NOT_LOADED,
            said(
                "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2b85)",
                "NVRM: installed in this system requires use of the NVIDIA open kernel modules.",
                "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:884)",
            ),
        ),
        first="open",
        unsaid=("modprobe nvidia",),
    ),
    unseen(
        "driver-kernel-incompatible",
        "a module that was built with another configuration",
        L4,
        both(NOT_LOADED, said("nvidia: disagrees about version of symbol module_layout")),
    ),
    unseen(
        "driver-install-broken",
        "a libcuda that an upgrade held back",
        L4,
        both(host(distribution="ubuntu 22.04"), stub(cuda__return__cuInit="803")),
        spoil=another_release_of_libcuda,
        first="libnvidia-compute-550",
    ),
    unseen(
        "device-node-permission",
        "a Slurm job that did not ask for a GPU",
        L4,
        both(
            driver(nodes=tuple(DeviceNodeSpec(name, 0o000) for name in ("nvidia0", "nvidiactl", "nvidia-uvm"))),
            stub(cuda__return__cuInit="100", nvml__return__nvmlInitWithFlags="4", nvml__return__nvmlInit_v2="4"),
            given(SLURM_JOB_ID="4711", SLURM_JOB_PARTITION="batch"),
        ),
        without_rights=True,
        first="--g",
    ),
    unseen(
        "gpu-removed-from-toolkit",
        "Arch's python-cupy of CUDA 13 on a GTX 1080",
        PASCAL,
        both(
            host(distribution="arch rolling"),
            gpus(name="NVIDIA GeForce GTX 1080", device="1b80"),
            target("cupy==14.2.0", NUMPY, toolkit="13.0"),
        ),
        spoil=arch_package("13"),
    ),
    unseen(
        "gpu-removed-from-toolkit",
        "conda's CuPy of CUDA 13 on a V100",
        "v100-580",
        target("cupy==14.1.1", NUMPY, toolkit=None),
        spoil=after(conda_package("cupy-14.1.1-py312h_0", "cupy-core-14.1.1-py312h_0", "cuda-version-13.0-h_3")),
        first="cuda-version=12",
    ),
    unseen(
        "driver-too-old-for-cuda",
        "conda's CuPy of CUDA 13 under R535",
        H100,
        target("cupy==14.1.1", NUMPY, toolkit=None),
        spoil=after(conda_package("cupy-14.1.1-py312h_0", "cupy-core-14.1.1-py312h_0", "cuda-version-13.0-h_3")),
        first="cuda-version=12",
    ),
    unseen(
        "cuda-library-missing",
        "CuPy 13 beside wheels of CUDA, which it does not look for",
        L4,
        target("cupy-cuda12x==13.6.0", NUMPY, "nvidia-cuda-nvrtc-cu12==12.4.127", toolkit=None),
        spoil=wheels_of_cuda_that_nobody_finds,
        first="14",
    ),
    unseen("corrupt-installation", "an installation that was interrupted", L4, spoil=metadata_lost),
    unseen(
        "python-unsupported",
        "the free-threaded Python 3.13",
        L4,
        target(NUMPY),
        assuming=("--assume", "python=3.13t"),
    ),
    unseen(
        "gpu-too-new-for-toolkit",
        "a B300 with CUDA 12.8",
        "gb200-580",
        both(
            host(arch="x86_64"),
            gpus(name="NVIDIA B300 SXM6 AC", capability="10.3", device="3182"),
            target("cupy-cuda12x==13.6.0", NUMPY, toolkit="12.8"),
        ),
    ),
    unseen("", "a library to preload that is not there", L4, spoil=nothing_to_preload),
    unseen("", "a process that sees nothing of the kernel's files", L4, host(kernel_files=False)),
    unseen(
        "",
        "nouveau has the card for the display, NVIDIA's module the other",
        L4,
        both(
            beside(PciSpec("0000:05:00.0", "0x030000", "10de", "1d01", "nouveau")),
            placed({"proc/modules": "nvidia_uvm 1 0 - Live 0x0\nnvidia 1 1 - Live 0x0\nnouveau 1 1 - Live 0x0\n"}),
        ),
    ),
    unseen(
        "",
        "one of two cards is passed on to a virtual machine",
        L4,
        beside(PciSpec("0000:65:00.0", "0x030200", "10de", "27b8", "vfio-pci")),
    ),
    unseen("", "a server's own display controller", H200, beside(ASPEED)),
    unseen("", "CuPy 13 from source, with its compiled modules", L4, target("cupy==13.6.0", NUMPY), arch_package("12")),
    unseen(
        "",
        "a second GPU that is idle under another user's exclusive mode",
        H100,
        both(lambda profile: profile, stub(gpu__0__processes="4012:1073741824")),
    ),
    unseen(
        "",
        "a proxy and a module system's variables",
        L4,
        spoil=variables(CUDA_HOME="/usr/local/cuda-12.4", LOADEDMODULES="cuda/12.4"),
    ),
)
