"""The scenarios by cause; the profiles in tests/machines cover further causes."""

from __future__ import annotations

from gpuenv.simulate.profile import CompatSpec, ContainerEngine, DeviceNodeSpec, KernelModule, PciVisibility
from tests.scenarios.driver_states import NO_DRIVER_LIBRARIES, NUMPY, NUMPY_1, VERSION_MISMATCH
from tests.scenarios.refusals import REFUSALS
from tests.scenarios.scenario import Change, Scenario, combine, driver, files, gpus, host, stub, target, variables
from tests.scenarios.target_setups import (
    cache_below_a_file,
    cache_of_another_user,
    cache_with_files_of_root,
    conda_package,
    cuda_path_of_another_major,
    dependent_package,
    fake_python,
    folder_named_cupy,
    home_is_a_file,
    interrupted,
    missing_file,
    modules_for_another_python,
    old_cxx_runtime,
    pythonpath_of_another_environment,
    script_named_cupy,
    without_base_python,
)

L4, H100, H200, V100, GEFORCE = "l4-550", "h100-535", "h200-580", "v100-580", "rtx5090-570"
ARM, FOR_JETSONS = host(arch="aarch64"), "cupy-cuda102==12.3.0"
JAX = ("jax==0.8.0", "jaxlib==0.8.0")
CLOSED_NODES = tuple(DeviceNodeSpec(name, 0o000) for name in ("nvidia0", "nvidiactl", "nvidia-uvm"))
AFTER_SUSPEND = files(sys__power__suspend_stats__success="3\n")

AS_PTX = variables(CUPY_COMPILE_WITH_PTX="1")


def newer_toolkit(release: str) -> Change:
    return target("cupy-cuda12x==14.2.0", NUMPY, toolkit=release)


_DRIVER = (
    Scenario("no-driver", "a laptop with Fedora", L4, driver(module=KernelModule.NONE, **NO_DRIVER_LIBRARIES)),
    Scenario(
        "driver-module-not-loaded", "a module that is not loaded", L4, driver(module=KernelModule.INSTALLED_NOT_LOADED)
    ),
    Scenario(
        "nouveau-loaded",
        "a server that came with nouveau",
        L4,
        driver(module=KernelModule.NOUVEAU, **NO_DRIVER_LIBRARIES),
    ),
    Scenario(
        "driver-library-version-mismatch",
        "an update without a restart",
        H200,
        combine(
            driver(library="580.159.04", version="580.65.06"),
            VERSION_MISMATCH,
        ),
    ),
    Scenario("driver-too-old-for-cuda", "R550 under cupy-cuda13x", L4, target("cupy-cuda13x==14.2.0", NUMPY)),
    Scenario(
        "forward-compat-unsupported",
        "cuda-compat on a GeForce",
        "rtx4090-545",
        combine(driver(compat=CompatSpec("560.35.05", 12060)), stub(cuda__return__cuInit="804")),
    ),
    Scenario(
        "suspend-resume-lost-gpu",
        "a desktop",
        "gtx1080ti-580",
        combine(AFTER_SUSPEND, stub(cuda__return__cuInit="999")),
    ),
    Scenario(
        "suspend-resume-lost-gpu", "a workstation", GEFORCE, combine(AFTER_SUSPEND, stub(cuda__return__cuInit="999"))
    ),
    Scenario("sources-disagree", "an nvidia-smi of another driver", L4, stub(smi__driver="470.161.03"), error=False),
)
_GPU = (
    Scenario(
        "gpu-removed-from-driver",
        "Pascal under R595",
        "p100-510",
        combine(driver(version="595.45.04", library="595.45.04", cuda=13020), gpus(shown=PciVisibility.BUS)),
    ),
    Scenario(
        "gpu-too-new-for-driver",
        "Hopper under R515",
        H100,
        combine(driver(version="515.48.07", library="515.48.07", cuda=11070), gpus(shown=PciVisibility.BUS)),
    ),
    Scenario("gpu-too-new-for-toolkit", "Blackwell under CUDA 11", GEFORCE, target("cupy-cuda11x==13.6.0", NUMPY)),
    Scenario("gpu-too-new-for-toolkit", "Hopper under CUDA 10.2", H100, target("cupy-cuda102==12.3.0", NUMPY_1)),
    Scenario(
        "gpu-too-old-for-any-driver",
        "a GT 610 with R390",
        "k80-470",
        combine(
            driver(version="390.157", library="390.157", cuda=9010),
            gpus(name="GeForce GT 610", capability="2.1", device="104a", pci_class="0x030000"),
        ),
    ),
    Scenario(
        "gpu-too-old-for-any-driver",
        "a Tesla C2075 with R375",
        "k80-470",
        combine(
            driver(version="375.66", library="375.66", cuda=8000),
            gpus(name="Tesla C2075", capability="2.0", device="1096"),
        ),
    ),
    # The aarch64 wheels of this line contain code only for the GPUs of Jetsons, although CUDA 10.2 supports others.
    Scenario("cupy-too-old-for-gpu", "a V100 in an Arm server", V100, combine(ARM, target(FOR_JETSONS, NUMPY_1))),
    Scenario("cupy-too-old-for-gpu", "a P100 in an Arm server", "p100-510", combine(ARM, target(FOR_JETSONS, NUMPY_1))),
    Scenario("gpu-throttled", "too hot", "t4-470", stub(gpu__0__clock__reasons="0x40"), error=False),
    Scenario("gpu-throttled", "the power brake of a server", H200, stub(gpu__0__clock__reasons="0x80"), error=False),
    Scenario("gpu-busy", "almost all memory is in use", H200, stub(gpu__0__memory__free="104857600"), error=False),
    Scenario(
        "visible-devices-hide-gpu",
        "a profile sets the variable over the scheduler's",
        "slurm-grant-two-of-eight",
        setup=variables(CUDA_VISIBLE_DEVICES="0"),
        error=False,
    ),
    Scenario(
        "sources-disagree",
        "a job that sees more GPUs than it was granted",
        "h100x8-550",
        setup=variables(SLURM_JOB_ID="7", SLURM_JOB_GPUS="2,3"),
        error=False,
    ),
    Scenario(
        "jetson-tegra",
        "libcuda of a server's driver",
        "jetson-orin-540",
        combine(driver(folder="usr/lib/aarch64-linux-gnu", library="550.163.01"), stub(cuda__return__cuInit="100")),
    ),
    Scenario(
        "jetson-tegra",
        "CUDA wheels for servers",
        "jetson-orin-540",
        target("cupy-cuda12x==14.2.0", NUMPY, "nvidia-cublas-cu12==12.6.4.1", "nvidia-cuda-nvrtc-cu12==12.6.85"),
        error=False,
    ),
)
_WHEEL = (
    Scenario(
        "wrong-cupy-wheel-for-cuda-major", "CUDA 13 with cupy-cuda12x", H200, target("cupy-cuda12x==14.2.0", NUMPY)
    ),
    Scenario(
        "wrong-cupy-wheel-for-cuda-major",
        "CUDA 11.8 with cupy-cuda12x",
        H100,
        target("cupy-cuda12x==13.6.0", NUMPY, toolkit="11.8"),
    ),
    Scenario("corrupt-installation", "a missing module", L4, setup=missing_file("cupy/_core/core.py")),
    Scenario("python-unsupported", "modules of Python 3.6", L4, setup=modules_for_another_python),
    Scenario("python-unsupported", "PYTHONPATH of Python 3.6", L4, setup=pythonpath_of_another_environment),
    Scenario(
        "platform-wheel-missing",
        "CuPy 11.6 on a Grace",
        "gb200-580",
        target("cupy-cuda12x==11.6.0", NUMPY_1, toolkit="12.9"),
    ),
    Scenario(
        "platform-wheel-missing",
        "CuPy 11.5 on a Grace Hopper",
        H100,
        combine(ARM, target("cupy-cuda12x==11.5.0", "numpy==1.25.2")),
    ),
    Scenario("numpy-incompatible", "NumPy 1.21 under 13.6", L4, target("cupy-cuda12x==13.6.0", "numpy==1.21.6")),
    Scenario("cupy-shadowed", "a script named cupy.py", L4, setup=script_named_cupy, error=False),
    Scenario("cupy-shadowed", "a folder on PYTHONPATH", L4, setup=folder_named_cupy),
    Scenario("mixed-pip-conda", "conda's cupy below pip's", L4, setup=conda_package("cupy-13.6.0-py312h_0")),
    Scenario("mixed-pip-conda", "conda's core below pip's", H100, setup=conda_package("cupy-core-14.1.1-h_0")),
    Scenario(
        "untrusted-package-name", "cupy-gpu", L4, target("cupy-cuda12x==14.2.0", NUMPY, "cupy-gpu==0.1"), error=False
    ),
    Scenario(
        "untrusted-package-name",
        "cupy-cuda120",
        H100,
        target("cupy-cuda12x==14.2.0", NUMPY, "cupy-cuda-120==1.0"),
        error=False,
    ),
    Scenario(
        "cupy-api-version-incompatible",
        "a library of the CUDA 11 line",
        L4,
        setup=dependent_package("cudf-cu11", "23.12.1", "cupy-cuda11x >=12.0.0"),
        error=False,
    ),
    Scenario(
        "cupy-api-version-incompatible",
        "a library that requires CuPy 12",
        L4,
        setup=dependent_package("cucim-cu12", "23.10", "cupy-cuda12x<13,>=12"),
        error=False,
    ),
    Scenario("cpu-only-framework", "torch", L4, target("cupy-cuda12x==14.2.0", NUMPY, "torch==2.9.0+cpu"), error=False),
    Scenario(
        "cpu-only-framework",
        "JAX",
        H100,
        target("cupy-cuda12x==14.2.0", NUMPY, *JAX),
        error=False,
    ),
    Scenario(
        "optional-library-missing", "cuTENSOR", L4, setup=variables(CUPY_ACCELERATORS="cub,cutensor"), error=False
    ),
    Scenario(
        "optional-library-missing",
        "cuTENSOR of CUDA 11",
        H100,
        target("cupy-cuda12x==14.2.0", NUMPY, "cutensor-cu11==2.2.0"),
        setup=variables(CUPY_ACCELERATORS="cutensor"),
        error=False,
    ),
)
_LIBRARY = (
    Scenario(
        "cuda-library-missing", "CuPy 14.2 without its extra", L4, target("cupy-cuda12x==14.2.0", NUMPY, toolkit=None)
    ),
    Scenario("nvrtc-output-invalid", "a newer toolkit, with PTX requested", H100, newer_toolkit("12.4"), AS_PTX),
    Scenario("nvrtc-output-invalid", "NVRTC 12.9 over R550", L4, newer_toolkit("12.9"), AS_PTX),
    Scenario("no-kernel-image", "forced PTX", L4, setup=variables(CUDA_FORCE_PTX_JIT="1"), error=False),
    Scenario(
        "no-kernel-image",
        "no PTX, and CuPy asked for it",
        L4,
        setup=variables(CUDA_DISABLE_PTX_JIT="1", CUPY_COMPILE_WITH_PTX="1"),
        error=False,
    ),
    Scenario(
        "cuda-path-wrong",
        "CUDA_PATH names a missing directory",
        L4,
        setup=variables(CUDA_PATH="/opt/cuda-9.0"),
        error=False,
    ),
    Scenario("cuda-path-wrong", "CUDA_PATH of CUDA 11", L4, setup=cuda_path_of_another_major, error=False),
    Scenario("library-path-conflict", "the stub of libcuda", "rtx4090-545", stub(cuda__return__cuInit="34")),
    Scenario("libstdcxx-mismatch", "by LD_LIBRARY_PATH", L4, setup=old_cxx_runtime("LD_LIBRARY_PATH")),
    Scenario("libstdcxx-mismatch", "by LD_PRELOAD", L4, setup=old_cxx_runtime("LD_PRELOAD")),
)
_OTHER = (
    Scenario("target-environment-broken", "a missing base Python", L4, setup=without_base_python, assumptions=()),
    Scenario("target-environment-broken", "a program that is not a Python", L4, setup=fake_python, assumptions=()),
    Scenario("install-interrupted", "a killed install", L4, setup=interrupted(None)),
    Scenario("install-interrupted", "a killed rollback", L4, setup=interrupted("undoing")),
    Scenario(
        "container-toolkit-broken",
        "a pod with device nodes only",
        "docker-device-without-toolkit",
        host(container=ContainerEngine.KUBERNETES),
    ),
    Scenario(
        "container-driver-capabilities",
        "only graphics and display",
        "container-utility-only",
        setup=variables(NVIDIA_DRIVER_CAPABILITIES="graphics,utility"),
    ),
    Scenario(
        "device-node-permission",
        "all nodes",
        L4,
        combine(driver(nodes=CLOSED_NODES), stub(cuda__return__cuInit="100", nvml__return__nvmlInitWithFlags="4")),
        unprivileged=True,
    ),
    Scenario(
        "device-node-permission",
        "only nvidia-uvm",
        L4,
        combine(
            driver(
                nodes=(
                    DeviceNodeSpec("nvidia0", 0o666),
                    DeviceNodeSpec("nvidiactl", 0o666),
                    DeviceNodeSpec("nvidia-uvm", 0o000),
                )
            ),
            stub(cuda__return__cuInit="999"),
        ),
        unprivileged=True,
    ),
    Scenario(
        "device-node-missing",
        "a host without nvidia-uvm",
        L4,
        combine(
            driver(nodes=(DeviceNodeSpec("nvidia0", 0o666), DeviceNodeSpec("nvidiactl", 0o666))),
            stub(cuda__return__cuInit="999"),
        ),
    ),
    Scenario(
        "wsl-libcuda",
        "an installed Linux driver",
        "wsl-rtx3060-560",
        combine(driver(folder=None, library="535.183.01"), stub(cuda__return__cuInit="100")),
    ),
    Scenario(
        "wsl-libcuda",
        "R472 in Windows",
        "wsl-rtx3060-560",
        combine(driver(version="472.12", cuda=11040), stub(cuda__return__cuInit="100")),
    ),
    Scenario("cupy-variable-invalid", "an old accelerator", L4, setup=variables(CUPY_ACCELERATORS="cub,cudnn")),
    Scenario("cupy-variable-invalid", "a word instead of a number", H100, setup=variables(CUPY_ENABLE_UMP="yes")),
    Scenario("kernel-cache-unwritable", "CUPY_CACHE_DIR below a file", L4, setup=cache_below_a_file),
    Scenario("kernel-cache-unwritable", "a home that is a file", H100, setup=home_is_a_file),
    Scenario(
        "kernel-cache-race", "a folder of another user", L4, setup=cache_of_another_user, error=False, needs_root=True
    ),
    Scenario(
        "kernel-cache-race", "files of another user", L4, setup=cache_with_files_of_root, error=False, needs_root=True
    ),
    Scenario("requirement-not-met", "more GPUs", L4, command=("preflight", "--require", "gpu>=9")),
    Scenario("requirement-not-met", "a newer GPU", V100, command=("preflight", "--require", "cc>=9.0")),
)
SCENARIOS = (*_DRIVER, *_GPU, *_WHEEL, *_LIBRARY, *_OTHER, *REFUSALS)
