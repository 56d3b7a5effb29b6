"""Scenarios of real packages, for the lane with a package index."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RealScenario:
    """Real packages that have a fault.

    Attributes:
        cause: the slug of the cause.
        name: a short description.
        packages: installed in this order; ``--no-deps`` may precede a name.
        metadata: distributions of which only the metadata is installed.
        remove: patterns of files that are deleted from site-packages.
        code: the code of the check.
        on_library_path: whether LD_LIBRARY_PATH names the libraries of wheels; CuPy 13 does not search wheels.
    """

    cause: str
    name: str
    packages: tuple[str, ...]
    code: str
    metadata: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    on_library_path: bool = False


CUPY = "cupy-cuda12x==14.2.0"
WITH_CUDA = CUPY.replace("12x", "12x[ctk]")
WITH_OLD_LINKER = (WITH_CUDA, "cuda-toolkit==12.9.*", "--no-deps nvidia-nvjitlink-cu12==12.1.105")
NVRTC = "--no-deps nvidia-cuda-nvrtc-cu12==12.9.86"
CUBLAS = "nvidia-cublas-cu12==12.9.1.4"
OTHER_LIBRARIES = "nvidia-cufft-cu12 nvidia-curand-cu12 nvidia-cusolver-cu12 nvidia-cusparse-cu12"
STRAY_NVRTC = "--no-deps nvidia-cuda-nvrtc==13.0.88"
REAL_PACKAGES = (
    RealScenario("torch-cupy-conflict", "torch's CUDA 13", (CUPY, NVRTC, STRAY_NVRTC), "LIB603", ("torch==2.11.0",)),
    RealScenario("torch-cupy-conflict", "JAX's CUDA 13", (CUPY, NVRTC, STRAY_NVRTC), "LIB603", ("jax==0.8.0",)),
    RealScenario("library-path-conflict", "a stray NVRTC 13", (CUPY, NVRTC, STRAY_NVRTC), "LIB603"),
    RealScenario(
        "library-path-conflict",
        "an nvJitLink older than cuSPARSE",
        WITH_OLD_LINKER,
        "LIB611",
    ),
    RealScenario(
        "torch-cupy-conflict",
        "torch's nvJitLink, older than cuSPARSE",
        WITH_OLD_LINKER,
        "LIB611",
        ("torch==2.1.0",),
    ),
    RealScenario(
        "cuda-headers-missing",
        "CuPy 14.2 without the headers of the runtime",
        (CUPY, NVRTC, f"{CUBLAS} {OTHER_LIBRARIES}"),
        "LIB605",
    ),
    RealScenario(
        "cuda-headers-missing",
        "CuPy 13.6 without the headers of the runtime",
        ("cupy-cuda12x==13.6.0", NVRTC, f"{CUBLAS} {OTHER_LIBRARIES}"),
        "LIB605",
        on_library_path=True,
    ),
    RealScenario(
        "nvrtc-builtins-mismatch",
        "missing builtins",
        (WITH_CUDA,),
        "LIB604",
        remove=("nvidia/cuda_nvrtc/lib/libnvrtc-builtins*",),
    ),
    RealScenario(
        "nvrtc-builtins-mismatch",
        "builtins of another release",
        (WITH_CUDA, "--no-deps nvidia-cuda-nvrtc-cu12==12.6.85"),
        "LIB604",
        remove=("nvidia/cuda_nvrtc/lib/libnvrtc-builtins*",),
    ),
)
