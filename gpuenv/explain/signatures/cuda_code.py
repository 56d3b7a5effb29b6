"""Errors of the CUDA runtime and of the driver API about code that a GPU or driver does not take."""

from __future__ import annotations

from gpuenv.explain.explanation_types import Modifier, Signature
from gpuenv.model.causes import Cause

_RUNTIME = "CUDA runtime and driver API"
_SOURCE = "libcudart, cudaGetErrorString; driver_types.h and cuda.h of CUDA 13.0"

SIGNATURES = (
    Signature(
        "cuda.unsupported-ptx",
        _RUNTIME,
        ("compiled with an unsupported toolchain", "unsupported_ptx_version", "unsupportedptxversion"),
        ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.9), (Cause.LIBRARY_PATH_CONFLICT, 0.04)),
        _SOURCE,
        title="The PTX is of a newer CUDA than this driver reads",
    ),
    Signature(
        "cuda.ptx-version",
        "ptxas in the driver",
        ("unsupported .version",),
        ((Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.95),),
        "libnvidia-ptxjitcompiler and ptxas, the strings of the binaries",
        pattern=r"Unsupported \.version (?P<ptx>[\d.]+)(?:; current version is '(?P<known>[\d.]+)')?",
        title="The PTX is of version {ptx}, newer than this driver reads",
    ),
    Signature(
        "cuda.no-kernel-image",
        _RUNTIME,
        ("no kernel image is available", "nokernelimagefordevice", "no_binary_for_gpu", "invalid device function"),
        (
            (Cause.NO_KERNEL_IMAGE, 0.6),
            (Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.22),
            (Cause.GPU_REMOVED_FROM_TOOLKIT, 0.08),
            (Cause.CUPY_TOO_OLD_FOR_GPU, 0.05),
        ),
        _SOURCE,
        pattern=(
            r"no kernel image is available|cudaErrorNoKernelImageForDevice|CUDA_ERROR_NO_BINARY_FOR_GPU"
            r"|cudaErrorInvalidDeviceFunction|CUDA error: invalid device function|cuda.*invalid device function"
        ),
        title="A binary holds no code for this GPU",
        modifiers=(
            Modifier("cupy-driver-error", Cause.GPU_TOO_NEW_FOR_TOOLKIT, 5),
            Modifier("cupy-driver-error", Cause.NO_KERNEL_IMAGE, 0.4),
            Modifier("gpu-newer", Cause.GPU_TOO_NEW_FOR_TOOLKIT, 25),
            Modifier("gpu-older", Cause.GPU_REMOVED_FROM_TOOLKIT, 40),
            Modifier("torch-error", Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.6),
            Modifier("jetson", Cause.JETSON_TEGRA, 60),
        ),
        decisive_fact="the GPU and the CUDA of the binary: --assume gpu=NAME, --assume toolkit=VERSION",
    ),
    Signature(
        "cuda.invalid-image",
        _RUNTIME,
        (
            "device kernel image is invalid",
            "cuda_error_invalid_source",
            "cuda_error_invalid_image",
            "invalidkernelimage",
        ),
        (
            (Cause.CUPY_TOO_OLD_FOR_GPU, 0.46),
            (Cause.NVRTC_OUTPUT_INVALID, 0.28),
            (Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.2),
        ),
        _SOURCE,
        title="The driver refuses the code that was made for this GPU",
        modifiers=(
            Modifier("gpu-newer", Cause.GPU_TOO_NEW_FOR_TOOLKIT, 6),
            Modifier("other-jit", Cause.CUPY_TOO_OLD_FOR_GPU, 0.2),
            Modifier("relocatable", Cause.NVRTC_OUTPUT_INVALID, 8),
        ),
        decisive_fact="the GPU, the CuPy release and its NVRTC: --assume gpu=NAME, --assume cupy=NAME==VERSION",
    ),
    Signature(
        "cuda.invalid-ptx",
        _RUNTIME,
        ("a ptx jit compilation failed", "cuda_error_invalid_ptx", "cudaerrorinvalidptx"),
        (
            (Cause.NVRTC_OUTPUT_INVALID, 0.55),
            (Cause.DRIVER_TOO_OLD_FOR_CUDA, 0.22),
            (Cause.GPU_TOO_NEW_FOR_TOOLKIT, 0.06),
        ),
        _SOURCE,
        title="The driver could not compile the PTX",
        modifiers=(Modifier("driver-older", Cause.DRIVER_TOO_OLD_FOR_CUDA, 6),),
        decisive_fact="what ptxas says of it, and whether the driver is older than the CUDA that wrote it",
    ),
)
