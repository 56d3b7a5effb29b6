"""Systems of other kinds than servers with a package manager, and sound environments that look odd."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuenv.simulate.profile import ContainerEngine, DeviceNodeSpec, KernelModule, PciSpec
from tests.scenarios.ground import both, driver, gpus, host, stub, target
from tests.scenarios.spoiling import write
from tests.scenarios.states import NOTHING, NUMPY, beside, said
from tests.support.target import run_at_start
from tests.unseen.quiet import INTEL, SECURE_BOOT
from tests.unseen.spoilt import loader_without
from tests.unseen.table import PODMAN, given, placed, unseen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.scenarios.ground import Ground

L4, PASCAL, WSL, THOR = "l4-550", "gtx1080ti-580", "wsl-rtx3060-560", "thor-580"
ABSENT = driver(module=KernelModule.NONE, **NOTHING)
COS = host(distribution="cos 117", kernel="6.6.72+")
NO_DEVICE = both(driver(nodes=(), **NOTHING), lambda profile: replace(profile, other_devices=()))
LEAP = "6.4.0-150600.23.65-default"
SUPERGFXD = (
    "blacklist nouveau\nalias nouveau off\nblacklist i2c_nvidia_gpu\nblacklist nvidia\nblacklist nvidia-drm\n"
    "blacklist nvidia-modeset\nalias nvidia off\n"
)
SOUND = {
    "CUPY_ACCELERATORS": "cub",
    "CUPY_COMPILE_WITH_PTX": "1",
    "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM": "1",
    "CUPY_GPU_MEMORY_LIMIT": "50%",
    "CUPY_TF32": "1",
    "CUDA_CACHE_PATH": "/nonexistent",
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "CUDA_LAUNCH_BLOCKING": "1",
    "CUDA_MODULE_LOADING": "EAGER",
    "CUDA_VISIBLE_DEVICES": " 0",
    "CUDA_PATH": "",
    "TMPDIR": "/gone",
}


def stubs_first(ground: Ground) -> Mapping[str, str]:
    """The folder has no libcuda.so.1, which alone the loader is asked for."""
    folder = ground.machine.root / "usr/local/cuda-12.4/lib64/stubs"
    write(folder / "libcuda.so")
    return {"LD_LIBRARY_PATH": f"{folder}:{ground.machine.environment['LD_LIBRARY_PATH']}"}


def greeting(ground: Ground) -> Mapping[str, str]:
    run_at_start(ground.site, "print('{}')\nprint('Welcome to node17')\nimport one_that_is_not_there\n")
    return {"PYTHONWARNINGS": "error", "PYTHONOPTIMIZE": "2"}


def in_a_folder_of_ones_own(ground: Ground) -> Mapping[str, str]:
    """As by ``pip install --target``."""
    folder = ground.folder / "app/lib"
    folder.mkdir(parents=True)
    for path in (*ground.site.glob("cupy*"), *ground.site.glob("numpy*")):
        path.rename(folder / path.name)
    return {"PYTHONPATH": str(folder)}


ELSEWHERE = (
    unseen(
        "no-driver",
        "Container-Optimized OS as it starts",
        L4,
        both(COS, ABSENT),
        first="cos-extensions install gpu",
        unsaid=("apt-get", "dnf"),
    ),
    unseen(
        "driver-install-broken",
        "Container-Optimized OS, whose loader does not know the folder of its driver",
        L4,
        both(COS, driver(folder="var/lib/nvidia/lib64")),
        loader_without("/var/lib/nvidia"),
        first="/var/lib/nvidia/lib64",
        unsaid=("apt-get", "nstall"),
    ),
    unseen("", "Container-Optimized OS with its driver", L4, both(COS, driver(folder="var/lib/nvidia/lib64"))),
    unseen(
        "no-driver",
        "Flatcar as it starts",
        L4,
        both(host(distribution="flatcar 4230.2.1"), ABSENT),
        unsaid=("apt-get", "dnf"),
    ),
    unseen(
        "driver-kernel-incompatible",
        "openSUSE's modules, whose key nobody has enrolled",
        L4,
        both(
            host(distribution="opensuse-leap 15.6", kernel=LEAP),
            driver(module=KernelModule.INSTALLED_NOT_LOADED, folder="usr/lib64"),
            placed({**SECURE_BOOT, f"lib/modules/{LEAP}/modules.dep": "updates/nvidia.ko:\n"}),
            said("Loading of module with unavailable key is rejected"),
        ),
        first="mokutil --import /usr/share/nvidia-pubkeys",
        unsaid=("dkms",),
    ),
    unseen(
        "driver-install-broken",
        "a host of virtual GPUs, whose driver has no CUDA",
        L4,
        both(
            host(distribution="debian 12", kernel="6.8.12-9-pve"),
            driver(libcuda=False),
            gpus(name="NVIDIA L40S", device="26b9"),
            stub(gpu__0__virtualization="3"),
        ),
        first="vGPU manager",
        unsaid=("apt-get",),
    ),
    unseen(
        "device-node-missing",
        "an install line that keeps nvidia-uvm out",
        L4,
        both(
            driver(nodes=tuple(DeviceNodeSpec(name, 0o666) for name in ("nvidia0", "nvidiactl"))),
            placed({"etc/modprobe.d/no-uvm.conf": "install nvidia_uvm /bin/false\n"}),
            stub(cuda__return__cuInit="999"),
        ),
        first="/bin/false",
    ),
    unseen(
        "driver-module-not-loaded",
        "supergfxctl has taken the GPU off the bus",
        L4,
        both(
            host(distribution="fedora 43"),
            driver(module=KernelModule.INSTALLED_NOT_LOADED),
            lambda profile: replace(profile, gpus=()),
            beside(INTEL),
            placed({"etc/modprobe.d/supergfxd.conf": SUPERGFXD}),
        ),
        first="supergfxd.conf",
        unsaid=("prime-select", "another host"),
    ),
    unseen(
        "container-toolkit-broken",
        "a toolbox, which has the host's nodes and not its libraries",
        L4,
        both(PODMAN, host(distribution="fedora 42"), driver(**NOTHING), placed({"run/.toolboxenv": ""})),
        unsaid=("ocker",),
    ),
    unseen(
        "container-without-gpu",
        "a step of BuildKit's",
        L4,
        both(driver(nodes=(), **NOTHING), placed({"proc/1/cgroup": "0::/docker/buildkit/2vh2jsb4c\n"})),
        unsaid=("apt-get", "modprobe"),
    ),
    unseen("no-driver", "WSL with gpuSupport=false", WSL, NO_DEVICE, first="gpuSupport", unsaid=("apt-get",)),
    unseen(
        "no-driver",
        "WSL 1",
        WSL,
        both(host(kernel="4.4.0-19041-Microsoft", kernel_files=False), NO_DEVICE),
        first="WSL 2",
        unsaid=("apt-get", "gpuSupport"),
    ),
    unseen("", "WSL with a kernel of one's own", WSL, host(kernel="6.6.36.3-xanmod1")),
    unseen(
        "gpu-too-new-for-toolkit",
        "a Thor with the line of CUDA 12",
        THOR,
        target("cupy-cuda12x==14.2.0", NUMPY, toolkit="12.9"),
        first="cupy-cuda13x",
    ),
    unseen("", "an L4 under CUDA 11.4, which knows 8.6", L4, target("cupy-cuda11x==13.6.0", NUMPY, toolkit="11.4")),
    unseen("", "cupy-xarray beside", L4, target("cupy-cuda12x==14.2.0", NUMPY, "cupy-xarray==0.1.4")),
    unseen(
        "",
        "a Turing under the open modules of R590",
        PASCAL,
        both(
            driver(module=KernelModule.OPEN, version="590.48.01", library="590.48.01", cuda=13010),
            gpus(name="NVIDIA GeForce GTX 1650", capability="7.5", device="1f82", memory=4096 << 20),
            target("cupy-cuda13x==14.2.0", NUMPY, toolkit="13.0"),
        ),
    ),
    unseen("", "neither NVML nor nvidia-smi", L4, driver(nvml=False, smi=False)),
    unseen("", "the folder of stubs first, which has no libcuda.so.1", L4, spoil=stubs_first),
    unseen("", "a Python that greets whoever starts it", L4, spoil=greeting),
    unseen("", "everything in a folder that PYTHONPATH names", L4, spoil=in_a_folder_of_ones_own),
    unseen("", "CuPy's and CUDA's variables, all of them sound", L4, given(**SOUND)),
    unseen(
        "",
        "a pod that was granted its GPU by mounts",
        L4,
        both(
            host(container=ContainerEngine.KUBERNETES),
            given(NVIDIA_VISIBLE_DEVICES="/var/run/nvidia-container-devices"),
        ),
    ),
    unseen(
        "",
        "ROCm beside, for the processor's graphics",
        L4,
        both(
            beside(PciSpec("0000:0b:00.0", "0x030000", "1002", "164e", "amdgpu")),
            placed({"opt/rocm/.info/version": "6.4.1-83\n", "dev/kfd": ""}),
            given(ROCM_PATH="/opt/rocm"),
        ),
    ),
)
