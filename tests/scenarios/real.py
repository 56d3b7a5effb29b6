"""Scenarios of real packages, in the lane that needs a package index."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RealScenario:
    """Real packages that show a cause.

    Attributes:
        cause: its slug.
        name: what is the matter.
        packages: what is installed, one after the other; ``--no-deps`` may stand before a name.
        metadata: distributions of which nothing but the metadata matters.
        remove: files that are deleted, as patterns below the folder of the packages.
        code: of the check that finds it.
        by_loader: whether the loader is led to the libraries of the wheels: CuPy 13 looks for them nowhere else.
    """

    cause: str
    name: str
    packages: tuple[str, ...]
    code: str
    metadata: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    by_loader: bool = False


CUPY = "cupy-cuda12x==14.2.0"
WITH_CUDA = CUPY.replace("12x", "12x[ctk]")
WITH_OLD_LINKER = (WITH_CUDA, "cuda-toolkit==12.9.*", "--no-deps nvidia-nvjitlink-cu12==12.1.105")
NVRTC = "--no-deps nvidia-cuda-nvrtc-cu12==12.9.86"
CUBLAS = "nvidia-cublas-cu12==12.9.1.4"
REST = "nvidia-cufft-cu12 nvidia-curand-cu12 nvidia-cusolver-cu12 nvidia-cusparse-cu12"
STRAY = "--no-deps nvidia-cuda-nvrtc==13.0.88"
REAL = (
    RealScenario("torch-cupy-conflict", "torch's CUDA 13", (CUPY, NVRTC, STRAY), "LIB603", ("torch==2.11.0",)),
    RealScenario("torch-cupy-conflict", "JAX's CUDA 13", (CUPY, NVRTC, STRAY), "LIB603", ("jax==0.8.0",)),
    RealScenario("library-path-conflict", "a stray NVRTC 13", (CUPY, NVRTC, STRAY), "LIB603"),
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
    RealScenario("cuda-headers-missing", "14.2 without the runtime's", (CUPY, NVRTC, f"{CUBLAS} {REST}"), "LIB605"),
    RealScenario(
        "cuda-headers-missing",
        "13.6 without the runtime's",
        ("cupy-cuda12x==13.6.0", NVRTC, f"{CUBLAS} {REST}"),
        "LIB605",
        by_loader=True,
    ),
    RealScenario(
        "nvrtc-builtins-mismatch",
        "its builtins are gone",
        (WITH_CUDA,),
        "LIB604",
        remove=("nvidia/cuda_nvrtc/lib/libnvrtc-builtins*",),
    ),
    RealScenario(
        "nvrtc-builtins-mismatch",
        "those of another release",
        (WITH_CUDA, "--no-deps nvidia-cuda-nvrtc-cu12==12.6.85"),
        "LIB604",
        remove=("nvidia/cuda_nvrtc/lib/libnvrtc-builtins*",),
    ),
)
