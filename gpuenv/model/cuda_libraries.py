"""The CUDA libraries that CuPy loads at run time, by CUDA major version.

The sonames are the DT_NEEDED entries of the extension modules in the wheels cupy-cuda11x 13.6.0, cupy-cuda12x 13.6.0
and 14.2.0 and cupy-cuda13x 14.2.0 (Linux x86_64). Two bear the same name in CUDA 12 and 13:
libcusparse.so.12 and libcurand.so.10.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WantedLibrary:
    """A library by its name, which is also cuda-pathfinder's, and its soname."""

    name: str
    soname: str


def _wanted(
    nvrtc: str, cublas: str, cufft: str, curand: str, cusolver: str, cusparse: str
) -> tuple[WantedLibrary, ...]:
    names = ("nvrtc", "cublas", "cufft", "curand", "cusolver", "cusparse")
    sonames = (nvrtc, cublas, cufft, curand, cusolver, cusparse)
    return tuple(WantedLibrary(n, f"lib{n}.so.{s}") for n, s in zip(names, sonames, strict=True))


WANTED: dict[int, tuple[WantedLibrary, ...]] = {
    11: _wanted("11.2", "11", "10", "10", "11", "11"),
    12: _wanted("12", "12", "11", "10", "11", "12"),
    13: _wanted("13", "13", "12", "10", "12", "12"),
}

# Those that CuPy works without. Their sonames are read from the extension modules of the CuPy that is there, which need
# them: cupy_backends/cuda/libs has nccl and cutensor in all these wheels, cudnn up to 13, and cusparselt in none.
OPTIONAL = ("nccl", "cutensor", "cusparselt", "cudnn")
