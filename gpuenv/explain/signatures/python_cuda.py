"""Messages of NVIDIA's Python packages and packages on top: numba-cuda, cuda-pathfinder, cuda-bindings, RAPIDS."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.explain.explanation_types import Level, Modifier, Signature, Weights
from gpuenv.model.causes import Cause

_NUMBA = "numba and numba-cuda"
_PATHFINDER = "cuda-pathfinder"
_OPTIONAL = ("cudnn", "nccl", "cutensor", "cusparselt", "nvshmem", "cublasmp", "cufftmp", "cudss", "cutensornet")


def _missing_library_weights(values: Mapping[str, str]) -> Weights:
    if values["library"].lower().startswith(_OPTIONAL):
        return ((Cause.OPTIONAL_LIBRARY_MISSING, 0.85),)
    return ((Cause.CUDA_LIBRARY_MISSING, 0.85), (Cause.CUDA_PATH_WRONG, 0.05))


SIGNATURES = (
    Signature(
        "pathfinder.not-found",
        _PATHFINDER,
        ("failure finding",),
        ((Cause.CUDA_LIBRARY_MISSING, 0.85), (Cause.CUDA_PATH_WRONG, 0.05)),
        "cuda-pathfinder 1.9, _dynamic_libs/find_nvidia_dynamic_lib.py",
        pattern=r"Failure finding [\"'](?:lib)?(?P<library>[A-Za-z][\w-]*?)(?:64_\w+)?\*?\.(?:so|dll)",
        title="{library}, a library of CUDA, is neither in the environment nor on the system",
        weights_fn=_missing_library_weights,
    ),
    Signature(
        "pathfinder.driver-library",
        _PATHFINDER,
        ("is an nvidia driver library", "failed to dlopen lib"),
        ((Cause.NO_DRIVER, 0.85), (Cause.CONTAINER_WITHOUT_GPU, 0.06)),
        "cuda-pathfinder 1.9, _dynamic_libs/load_nvidia_dynamic_lib.py; cuda-bindings 12, driver.pyx",
        pattern=r"is an NVIDIA driver library and can only be found via|Failed to dlopen lib(?:cuda|nvidia-ml)\.so",
        title="A library that only the driver brings is not found",
        modifiers=(Modifier("container", Cause.CONTAINER_WITHOUT_GPU, 8),),
        decisive_fact="whether this is a container: --assume container=yes or no",
    ),
    Signature(
        "pathfinder.two-roots",
        _PATHFINDER,
        ("cuda environment variables are set but differ",),
        ((Cause.CUDA_PATH_WRONG, 0.82),),
        "cuda-pathfinder 1.9, _utils/env_vars.py",
        title="CUDA_PATH and CUDA_HOME name different folders",
        level=Level.WARNING,
    ),
    Signature(
        "pathfinder.32-bit",
        _PATHFINDER,
        ("requires 64-bit python",),
        ((Cause.PLATFORM_WHEEL_MISSING, 0.6), (Cause.PYTHON_UNSUPPORTED, 0.3)),
        "cuda-pathfinder 1.9, _dynamic_libs/load_nvidia_dynamic_lib.py",
        pattern=r"load_nvidia_dynamic_lib\(\) requires 64-bit Python",
        title="The interpreter is of 32 bits; CUDA's libraries are of 64",
    ),
    Signature(
        "pathfinder.driver-query",
        _PATHFINDER,
        ("query the cuda driver version", "query cuda driver version", "driver missing function"),
        (
            (Cause.CUDA_INITIALIZATION_FAILED, 0.36),
            (Cause.NO_DRIVER, 0.3),
            (Cause.DRIVER_INSTALL_BROKEN, 0.15),
        ),
        "cuda-pathfinder 1.9, _utils/driver_info.py",
        pattern=r"Failed to query (?:the )?CUDA driver version",
        title="libcuda does not report its version",
        decisive_fact="what nvidia-smi says",
    ),
    Signature(
        "numba.driver-function",
        _NUMBA,
        ("driver missing function", "cuda driver missing"),
        ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.8), (Cause.NO_DRIVER, 0.05)),
        "numba-cuda 0.30, cudadrv/driver.py",
        pattern=r"Driver missing function: cu\w+",
        title="The program calls what this driver does not have yet",
    ),
    Signature(
        "numba.nvrtc-too-new",
        _NUMBA,
        ("minimum supported by nvrtc", "compute capability"),
        ((Cause.GPU_REMOVED_FROM_TOOLKIT, 0.9),),
        "numba-cuda 0.30, cudadrv/nvrtc.py; numba 0.68, cudadrv/nvvm.py",
        pattern=(
            r"compute capability (?P<capability>[\d.]+) is less than the minimum supported by NVRTC (?P<nvrtc>[\d.]+)"
            r"|GPU compute capability [\d.]+ is not supported ?\(requires"
        ),
        title="NVRTC {nvrtc} no longer compiles for compute capability {capability}",
    ),
    Signature(
        "numba.nvrtc-too-old",
        _NUMBA,
        ("is not supported by nvrtc",),
        ((Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.9),),
        "numba-cuda 0.30, cudadrv/nvrtc.py",
        pattern=r"compute capability (?P<capability>[\d.]+) is not supported by NVRTC (?P<nvrtc>[\d.]+)",
        title="NVRTC {nvrtc} does not know compute capability {capability} yet",
    ),
    Signature(
        "numba.bindings",
        _NUMBA,
        ("cuda python bindings not found",),
        ((Cause.CUDA_LIBRARY_MISSING, 0.6), (Cause.OPTIONAL_LIBRARY_MISSING, 0.25)),
        "numba-cuda 0.30, numba/cuda/__init__.py",
        pattern=r"NVIDIA CUDA Python bindings not found",
        title="cuda-bindings, through which numba-cuda calls the driver, is not installed",
    ),
    Signature(
        "numba.headers",
        _NUMBA,
        ("unable to find cuda_runtime.h",),
        ((Cause.CUDA_HEADERS_MISSING, 0.85), (Cause.CUDA_PATH_WRONG, 0.1)),
        "numba-cuda 0.30, cudadrv/runtime.py",
        title="The CUDA headers are not where numba-cuda looks for them",
    ),
    Signature(
        "numba.device-not-visible",
        _NUMBA,
        ("may not be visible in this process",),
        ((Cause.VISIBLE_DEVICES_HIDE_GPU, 0.7), (Cause.INVALID_DEVICE_ORDINAL, 0.25)),
        "numba-cuda 0.30, cudadrv/driver.py: Device.from_identity",
        pattern=r"No device of \S+ is found\. Target device may not be visible",
        title="A GPU that the program names is not visible to it",
    ),
    Signature(
        "numba.forked",
        _NUMBA,
        ("after cuda driver init",),
        ((Cause.FORK_AFTER_CUDA_INIT, 0.95),),
        "numba and numba-cuda, cudadrv/driver.py",
        pattern=r"pid \d+ forked from pid \d+ after CUDA driver init",
        title="A forked child uses the CUDA context of its parent",
    ),
    Signature(
        "numba.toolkit-part",
        _NUMBA,
        ("inferring cuda_home", "cuobjdump has not been found"),
        ((Cause.CUDA_LIBRARY_MISSING, 0.5), (Cause.CUDA_PATH_WRONG, 0.42)),
        "numba-cuda 0.30, cuda_paths.py and cudadrv/driver.py",
        pattern=r"(?:not found|load failed) (?:after|while) inferring CUDA_HOME|cuobjdump has not been found",
        title="A part of the CUDA toolkit is not found",
    ),
    Signature(
        "rapids.no-driver",
        "cuDF",
        ("couldn't detect the gpu driver",),
        ((Cause.NO_DRIVER, 0.72), (Cause.CONTAINER_WITHOUT_GPU, 0.12)),
        "cudf 0.17 to 26.2, utils/gpu_utils.py: validate_setup",
        pattern=r"couldn't detect the GPU driver properly",
        title="cuDF finds no driver",
        modifiers=(
            Modifier("container", Cause.CONTAINER_WITHOUT_GPU, 8),
            Modifier("host", Cause.CONTAINER_WITHOUT_GPU, 0.05),
        ),
        decisive_fact="whether this is a container: --assume container=yes or no",
    ),
    Signature(
        "rapids.old-driver",
        "cuDF",
        ("update your nvidia gpu driver to support cuda",),
        ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.93),),
        "cudf 0.17 to 26.2, utils/gpu_utils.py: validate_setup",
        pattern=r"update your NVIDIA GPU Driver to support CUDA Runtime",
        title="The driver is older than cuDF's CUDA runtime",
    ),
    Signature(
        "rapids.old-gpu",
        "cuDF",
        ("or newer architecture is required", "you will need a gpu with nvidia"),
        ((Cause.NO_KERNEL_IMAGE, 0.85), (Cause.GPU_REMOVED_FROM_TOOLKIT, 0.1)),
        "cudf 0.17 to 26.2, utils/gpu_utils.py: validate_setup",
        pattern=r"A GPU with NVIDIA \S+ \(Compute Capability [\d.]+\) or newer architecture is required|You will need a GPU with NVIDIA \S+(?: \([^)]*\))? (?:architecture or better|or newer)",
        title="RAPIDS is built for newer GPUs than this one",
    ),
    Signature(
        "rapids.no-gpu",
        "cuDF",
        ("no nvidia gpu detected",),
        (
            (Cause.VISIBLE_DEVICES_HIDE_GPU, 0.3),
            (Cause.NO_NVIDIA_GPU, 0.25),
            (Cause.NO_DRIVER, 0.2),
            (Cause.CONTAINER_WITHOUT_GPU, 0.1),
        ),
        "cudf 0.17 to 26.2, utils/gpu_utils.py: validate_setup",
        pattern=r"UserWarning: No NVIDIA GPU detected",
        title="cuDF sees no GPU",
        modifiers=(
            Modifier("container", Cause.CONTAINER_WITHOUT_GPU, 6),
            Modifier("hidden", Cause.VISIBLE_DEVICES_HIDE_GPU, 30),
        ),
        decisive_fact="what nvidia-smi -L lists in the same shell, and the value of CUDA_VISIBLE_DEVICES",
    ),
    Signature(
        "rmm.pool-exceeded",
        "RMM",
        ("maximum pool size exceeded", "rmm failure at", "rmm_error_out_of_memory", "std::bad_alloc"),
        ((Cause.OUT_OF_MEMORY, 0.9),),
        "rmm 26.2, mr/device/pool_memory_resource.hpp",
        pattern=r"out_of_memory: RMM failure at|Maximum pool size exceeded|RMM_ERROR_OUT_OF_MEMORY|std::bad_alloc\W{1,4}(?:out_of_memory|RMM|CUDA)",
        title="RMM could not allocate memory on the GPU",
    ),
    Signature(
        "torch.no-cuda-library",
        "torch",
        ("without aten_cuda library", "is not linked with support for", "dummy base class"),
        ((Cause.CPU_ONLY_FRAMEWORK, 0.92),),
        "torch 2.0 to 2.11, ATen/detail/CUDAHooksInterface.h, c10/core/impl and torch/_utils.py",
        pattern=(
            r"Cannot (?:initialize CUDA|\w+ .*) without ATen_cuda library|PyTorch is not linked with support for cuda"
            r"|instantiate dummy base class (?:Stream|Event|CUDAGraph|_?Cuda\w+)"
        ),
        title="The installed torch is built without CUDA",
        evidence="cpu-torch",
    ),
    Signature(
        "torch.capability-range",
        "torch",
        ("cuda capability supported by this",),
        ((Cause.NO_KERNEL_IMAGE, 0.85), (Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.1)),
        "torch 1.13 to 2.11, cuda/__init__.py: _check_capability",
        pattern=r"(?:Minimum and Maximum|minimum) cuda capability supported by this (?:version of PyTorch|library)",
        title="This build of PyTorch holds no code for the GPU",
        evidence="torch-error",
    ),
    Signature(
        "xla.libraries",
        "XLA",
        ("unknown error (303)", "error loading cuda libraries"),
        ((Cause.NO_DRIVER, 0.5), (Cause.CONTAINER_WITHOUT_GPU, 0.2), (Cause.CUDA_LIBRARY_MISSING, 0.12)),
        "xla, stream_executor/cuda: the stubs that answer where a library cannot be opened; cuda.h, error 303",
        pattern=r"cuInit: UNKNOWN ERROR \(303\)|Error loading CUDA libraries\. GPU will not be used",
        title="XLA could not open libcuda or the CUDA runtime",
        modifiers=(
            Modifier("container", Cause.CONTAINER_WITHOUT_GPU, 6),
            Modifier("host", Cause.CONTAINER_WITHOUT_GPU, 0.05),
            Modifier("wsl", Cause.WSL_LIBCUDA, 8),
            Modifier("driver-none", Cause.NO_DRIVER, 10),
            Modifier("gpu-none", Cause.NO_NVIDIA_GPU, 60),
        ),
        decisive_fact="whether this is a container: --assume container=yes or no",
    ),
)
