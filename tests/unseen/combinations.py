"""Machines and environments in which two facts meet: two faults, or a fault and something harmless."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuenv.simulate.profile import ContainerEngine
from tests.scenarios.driver_states import NUMPY, NUMPY_1
from tests.scenarios.scenario import combine, driver, host, stub, target
from tests.scenarios.target_setups import dependent_package, write
from tests.unseen.machine_table import LXC, case, with_variables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.scenarios.scenario import Workspace

L4, H200, WSL = "l4-550", "h200-580", "wsl-rtx3060-560"
LINE_12, LINE_13 = "cupy-cuda12x==14.2.0", "cupy-cuda13x==14.2.0"
TORCH_CU126 = ("torch==2.7.1+cu126", "nvidia-cublas-cu12==12.6.4.1", "nvidia-cuda-nvrtc-cu12==12.6.77")
TORCH_CU124 = ("torch==2.5.1+cu124", "nvidia-cublas-cu12==12.4.5.8", "nvidia-cuda-nvrtc-cu12==12.4.127")
BLOCKED = "GPU access blocked by the operating system"


def target_folder_with_cupy(workspace: Workspace) -> Mapping[str, str]:
    """PYTHONPATH names a folder that pip install --target filled."""
    folder = workspace.folder / "opt/lib"
    text = "Metadata-Version: 2.1\nName: cupy-cuda11x\nVersion: 13.6.0\n"
    write(folder / "cupy_cuda11x-13.6.0.dist-info/METADATA", text)
    write(folder / "cupy/__init__.py")
    write(workspace.site / "cupy/__init__.py")
    return {"PYTHONPATH": str(folder)}


COMBINATIONS = (
    case(
        "driver-library-version-mismatch",
        "an update without a restart, and a variable that hides the GPU",
        "mismatch-535",
        with_variables(CUDA_VISIBLE_DEVICES="-1"),
        first_fix="reboot",
    ),
    case(
        "cuda-initialization-failed",
        "WSL to which Windows does not give the GPU",
        WSL,
        stub(
            nvml__return__nvmlInit_v2="17",
            nvml__return__nvmlInitWithFlags="17",
            smi__exit="17",
            smi__text=f"Failed to initialize NVML: {BLOCKED}\\n",
            cuda__return__cuInit="100",
        ),
        first_fix="wsl.exe --shutdown",
        included=("driver in Windows",),
        excluded=("dmesg", "reboot"),
    ),
    case(
        "fabric-manager-not-running",
        "a container on an NVSwitch host",
        "fabric-manager",
        combine(host(container=ContainerEngine.DOCKER), with_variables(NVIDIA_VISIBLE_DEVICES="all")),
        first_fix="On the host",
    ),
    case(
        "container-without-gpu",
        "an LXC container on a host that has not loaded the driver's module",
        "module-not-loaded-a100",
        LXC,
        first_fix="modprobe nvidia",
        included=("/dev/nvidia*",),
    ),
    case(
        "container-driver-capabilities",
        "a pod with the capabilities graphics and video",
        "container-utility-only",
        combine(
            host(container=ContainerEngine.KUBERNETES),
            driver(smi=False, nvml=False),
            with_variables(NVIDIA_DRIVER_CAPABILITIES="graphics,video", NVIDIA_VISIBLE_DEVICES="all"),
        ),
        first_fix="NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        excluded=("runtimeClassName",),
    ),
    case(
        "python-unsupported",
        "a Python newer than CuPy, and a NumPy newer than CuPy",
        L4,
        target("cupy-cuda12x==13.3.0", NUMPY),
        first_fix=LINE_12,
        excluded=("numpy<2.3",),
        assumptions=("--assume", "python=3.14"),
    ),
    case(
        "wrong-cupy-wheel-for-cuda-major",
        "PyTorch's libraries of CUDA 12 next to cupy-cuda13x",
        H200,
        target(LINE_13, NUMPY, *TORCH_CU126, toolkit=None),
        first_fix="cupy-cuda12x[ctk]",
        included=("Or keep cupy-cuda13x with its libraries",),
    ),
    case(
        "",
        "PyTorch's libraries of CUDA 12 next to cupy-cuda13x and a toolkit",
        H200,
        target(LINE_13, NUMPY, *TORCH_CU126, toolkit="13.0"),
    ),
    case("", "a notebook of Colab with PyTorch", "colab-t4", target("cupy-cuda12x==13.3.0", NUMPY_1, *TORCH_CU124)),
    case(
        "cupy-api-version-incompatible",
        "cuDF that requires an older CuPy",
        L4,
        setup=dependent_package("cudf-cu12", "24.10.1", "cupy-cuda12x<14,>=12.0.0"),
        error=False,
    ),
    case("multiple-cupy-packages", "a folder of pip install --target on the path", L4, setup=target_folder_with_cupy),
)
