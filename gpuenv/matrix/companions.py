"""What else is in the target environment and brings CUDA libraries: which major, from whom, and what it asks of CuPy.

CuPy finds CUDA wheels in site-packages through cuda-pathfinder from its release 14.0 on, the release that first had the
extra; pathfinder tries the library names of the newest CUDA major first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from gpuenv.matrix.packages import Advisory, Companion
from gpuenv.matrix.ranges import within
from gpuenv.matrix.records import Matrix
from gpuenv.model.cuda_wheels import cuda_major_of_wheel
from gpuenv.model.pattern import pattern
from gpuenv.model.versions import CudaVersion

# The CUDA wheels that CuPy itself loads or compiles with (the DT_NEEDED entries of its modules, NVRTC and the headers).
_LOADED = pattern(r"nvidia-(?:cuda-nvrtc|cuda-runtime|cublas|cufft|curand|cusolver|cusparse)(?:-cu\d\d)?")
_LOCAL = pattern(r"cu(\d\d)(\d)")


@dataclass(frozen=True, slots=True)
class Brings:
    """A distribution of the target that brings CUDA libraries, or needs those of one major.

    Attributes:
        distribution: its canonical name.
        version: its version.
        cuda_major: of the libraries.
        source: who says so: its metadata, or a row.
        is_library: whether it is itself one of the CUDA libraries.
        cuda: the minor that it pins, where it pins one.
        cupy: the versions of CuPy that it asks for.
    """

    distribution: str
    version: str
    cuda_major: int
    source: str
    is_library: bool
    cuda: CudaVersion | None = None
    cupy: str | None = None


def brought(packages: Mapping[str, str], matrix: Matrix) -> tuple[Brings, ...]:
    """Every such distribution of the target, as far as the matrix or its own name and version tell."""
    told = (_of(name, version, matrix) for name, version in packages.items())
    return tuple(sorted((entry for entry in told if entry is not None), key=lambda entry: entry.distribution))


def _of(name: str, version: str, matrix: Matrix) -> Brings | None:
    if _LOADED.fullmatch(name):
        major = cuda_major_of_wheel(name, version)
        return None if major is None else Brings(name, version, major, "its name and version", is_library=True)
    build = version.partition("+")[2]
    local = _LOCAL.fullmatch(build)
    if local and any(row.distribution == name for row in matrix.companions):
        cuda = CudaVersion(int(local[1]), int(local[2]))
        return Brings(name, version, cuda.major, "the build in its version", is_library=False, cuda=cuda)
    row = None if build else _row(name, version, matrix)
    if row is None:
        return None
    source = matrix.cite(row.source)
    return Brings(name, version, row.cuda_major, source, is_library=False, cuda=row.cuda, cupy=row.cupy)


def _row(name: str, version: str, matrix: Matrix) -> Companion | None:
    rows = [row for row in matrix.companions if row.distribution == name]
    try:
        return next((row for row in rows if within(version, row.versions)), None)
    except ValueError:  # InvalidVersion, or more digits than int takes
        return None


@lru_cache(maxsize=1024)
def advisories_for(cupy: str, matrix: Matrix) -> tuple[Advisory, ...]:
    """What is known to be bad of a CuPy release."""
    return tuple(row for row in matrix.advisories if within(cupy, row.cupy))
