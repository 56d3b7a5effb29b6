"""Systems other than servers with a package manager, and unusual healthy environments."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuenv.simulate.profile import ContainerEngine, DeviceNodeSpec, KernelModule, PciSpec
from tests.scenarios.driver_states import NO_DRIVER_LIBRARIES, NUMPY, kernel_log, other_devices
from tests.scenarios.scenario import combine, driver, gpus, host, stub, target
from tests.scenarios.target_setups import write
from tests.support.target import run_at_start
from tests.unseen.harmless_facts import INTEL, SECURE_BOOT
from tests.unseen.machine_table import PODMAN, case, with_files, with_variables
from tests.unseen.target_setups import loader_path_without

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.scenarios.scenario import Workspace

L4, PASCAL, WSL, THOR = "l4-550", "gtx1080ti-580", "wsl-rtx3060-560", "thor-580"
NO_DRIVER = driver(module=KernelModule.NONE, **NO_DRIVER_LIBRARIES)
COS = host(distribution="cos 117", kernel="6.6.72+")
NO_DEVICE = combine(driver(nodes=(), **NO_DRIVER_LIBRARIES), lambda profile: replace(profile, other_devices=()))
LEAP_KERNEL = "6.4.0-150600.23.65-default"
SUPERGFXD = (
    "blacklist nouveau\nalias nouveau off\nblacklist i2c_nvidia_gpu\nblacklist nvidia\nblacklist nvidia-drm\n"
    "blacklist nvidia-modeset\nalias nvidia off\n"
)
VALID_VARIABLES = {
    "CUPY_ACCELERATORS": "cub",
    "CUPY_COMPILE_WITH_PTX": "1",
    "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM": "1",
    "CUPY_GPU_MEMORY_LIMIT": "50%",
    "CUPY_TF32": "1",
    "CUDA_CACHE_PATH": "/nonexistent",
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "CUDA_DISABLE_PTX_JIT": "0",
    "CUDA_FORCE_PTX_JIT": "0",
    "CUDA_LAUNCH_BLOCKING": "1",
    "CUDA_MODULE_LOADING": "EAGER",
    "CUDA_VISIBLE_DEVICES": " 0",
    "CUDA_PATH": "",
    "TMPDIR": "/gone",
}


def stubs_first(workspace: Workspace) -> Mapping[str, str]:
    """The directory has no libcuda.so.1, the only name that the loader looks up."""
    folder = workspace.machine.root / "usr/local/cuda-12.4/lib64/stubs"
    write(folder / "libcuda.so")
    return {"LD_LIBRARY_PATH": f"{folder}:{workspace.machine.environment['LD_LIBRARY_PATH']}"}


def greeting(workspace: Workspace) -> Mapping[str, str]:
    run_at_start(workspace.site, "print('{}')\nprint('Welcome to node17')\nimport one_that_is_not_there\n")
    return {"PYTHONWARNINGS": "error", "PYTHONOPTIMIZE": "2"}


def in_target_directory(workspace: Workspace) -> Mapping[str, str]:
    """Installed by ``pip install --target``."""
    folder = workspace.folder / "app/lib"
    folder.mkdir(parents=True)
    for path in (*workspace.site.glob("cupy*"), *workspace.site.glob("numpy*")):
        path.rename(folder / path.name)
    return {"PYTHONPATH": str(folder)}


OTHER_SYSTEMS = (
    case(
        "no-driver",
        "a fresh Container-Optimized OS",
        L4,
        combine(COS, NO_DRIVER),
        first_fix="cos-extensions install gpu",
        excluded=("apt-get", "dnf"),
    ),
    case(
        "driver-install-broken",
        "Container-Optimized OS with its driver off the loader path",
        L4,
        combine(COS, driver(folder="var/lib/nvidia/lib64")),
        loader_path_without("/var/lib/nvidia"),
        first_fix="/var/lib/nvidia/lib64",
        excluded=("apt-get", "nstall"),
    ),
    case("", "Container-Optimized OS with its driver", L4, combine(COS, driver(folder="var/lib/nvidia/lib64"))),
    case(
        "no-driver",
        "a fresh Flatcar",
        L4,
        combine(host(distribution="flatcar 4230.2.1"), NO_DRIVER),
        excluded=("apt-get", "dnf"),
    ),
    case(
        "driver-kernel-incompatible",
        "openSUSE's modules with an unenrolled key",
        L4,
        combine(
            host(distribution="opensuse-leap 15.6", kernel=LEAP_KERNEL),
            driver(module=KernelModule.INSTALLED_NOT_LOADED, folder="usr/lib64"),
            with_files({**SECURE_BOOT, f"lib/modules/{LEAP_KERNEL}/modules.dep": "updates/nvidia.ko:\n"}),
            kernel_log("Loading of module with unavailable key is rejected"),
        ),
        first_fix="mokutil --import /usr/share/nvidia-pubkeys",
        excluded=("dkms",),
    ),
    case(
        "driver-install-broken",
        "a vGPU host whose driver has no CUDA",
        L4,
        combine(
            host(distribution="debian 12", kernel="6.8.12-9-pve"),
            driver(libcuda=False),
            gpus(name="NVIDIA L40S", device="26b9"),
            stub(gpu__0__virtualization="3"),
        ),
        first_fix="vGPU manager",
        excluded=("apt-get",),
    ),
    case(
        "device-node-missing",
        "an install line that blocks nvidia-uvm",
        L4,
        combine(
            driver(nodes=tuple(DeviceNodeSpec(name, 0o666) for name in ("nvidia0", "nvidiactl"))),
            with_files({"etc/modprobe.d/no-uvm.conf": "install nvidia_uvm /bin/false\n"}),
            stub(cuda__return__cuInit="999"),
        ),
        first_fix="/bin/false",
    ),
    case(
        "driver-module-not-loaded",
        "a GPU removed from the bus by supergfxctl",
        L4,
        combine(
            host(distribution="fedora 43"),
            driver(module=KernelModule.INSTALLED_NOT_LOADED),
            lambda profile: replace(profile, gpus=()),
            other_devices(INTEL),
            with_files({"etc/modprobe.d/supergfxd.conf": SUPERGFXD}),
        ),
        first_fix="supergfxd.conf",
        excluded=("prime-select", "another host"),
    ),
    case(
        "container-toolkit-broken",
        "a toolbox with the host's nodes and without its libraries",
        L4,
        combine(
            PODMAN, host(distribution="fedora 42"), driver(**NO_DRIVER_LIBRARIES), with_files({"run/.toolboxenv": ""})
        ),
        excluded=("ocker",),
    ),
    case(
        "container-without-gpu",
        "a BuildKit step",
        L4,
        combine(
            driver(nodes=(), **NO_DRIVER_LIBRARIES), with_files({"proc/1/cgroup": "0::/docker/buildkit/2vh2jsb4c\n"})
        ),
        excluded=("apt-get", "modprobe"),
    ),
    case("no-driver", "WSL with gpuSupport=false", WSL, NO_DEVICE, first_fix="gpuSupport", excluded=("apt-get",)),
    case(
        "no-driver",
        "WSL 1",
        WSL,
        combine(host(kernel="4.4.0-19041-Microsoft", kernel_files=False), NO_DEVICE),
        first_fix="WSL 2",
        excluded=("apt-get", "gpuSupport"),
    ),
    case("", "WSL with a custom kernel", WSL, host(kernel="6.6.36.3-xanmod1")),
    case(
        "gpu-too-new-for-toolkit",
        "a Thor with the CUDA 12 wheel line",
        THOR,
        target("cupy-cuda12x==14.2.0", NUMPY, toolkit="12.9"),
        first_fix="cupy-cuda13x",
    ),
    case("", "an L4 under CUDA 11.4", L4, target("cupy-cuda11x==13.6.0", NUMPY, toolkit="11.4")),
    case("", "cupy-xarray", L4, target("cupy-cuda12x==14.2.0", NUMPY, "cupy-xarray==0.1.4")),
    case(
        "",
        "a Turing under the open modules of R590",
        PASCAL,
        combine(
            driver(module=KernelModule.OPEN, version="590.48.01", library="590.48.01", cuda=13010),
            gpus(name="NVIDIA GeForce GTX 1650", capability="7.5", device="1f82", memory=4096 << 20),
            target("cupy-cuda13x==14.2.0", NUMPY, toolkit="13.0"),
        ),
    ),
    case("", "neither NVML nor nvidia-smi", L4, driver(nvml=False, smi=False)),
    case("", "the stubs directory first on LD_LIBRARY_PATH", L4, setup=stubs_first),
    case("", "a Python that prints a banner at startup", L4, setup=greeting),
    case("", "all packages in a directory on PYTHONPATH", L4, setup=in_target_directory),
    case("", "valid variables of CuPy and CUDA", L4, with_variables(**VALID_VARIABLES)),
    case(
        "",
        "a pod with a GPU granted by mounts",
        L4,
        combine(
            host(container=ContainerEngine.KUBERNETES),
            with_variables(NVIDIA_VISIBLE_DEVICES="/var/run/nvidia-container-devices"),
        ),
    ),
    case(
        "",
        "ROCm for the integrated graphics",
        L4,
        combine(
            other_devices(PciSpec("0000:0b:00.0", "0x030000", "1002", "164e", "amdgpu")),
            with_files({"opt/rocm/.info/version": "6.4.1-83\n", "dev/kfd": ""}),
            with_variables(ROCM_PATH="/opt/rocm"),
        ),
    ),
)
