"""NVIDIA's CUDA wheels by name and version: which CUDA major version one belongs to. Pure.

The names are those in the METADATA of cuda-toolkit 12.9.2.0 and 13.5.0. The wheels of CUDA 11 and 12 bear the major
version in their names; those of CUDA 13 do not, and some count by their own library's version.
"""

from __future__ import annotations

from gpuenv.model.numbers import whole_number
from gpuenv.model.pattern import pattern

_SUFFIXED = pattern(r"nvidia-[a-z0-9-]+-cu(\d\d)")
_BY_CUDA_VERSION = frozenset(
    f"nvidia-{name}"
    for name in (
        *("cuda-cccl", "cuda-crt", "cuda-culibos", "cuda-cuobjdump", "cuda-cupti", "cuda-cuxxfilt", "cuda-nvcc"),
        *("cuda-nvdisasm", "cuda-nvrtc", "cuda-opencl", "cuda-profiler-api", "cuda-runtime", "cuda-sanitizer-api"),
        *("cuda-tileiras", "cudla", "nvfatbin", "nvjitlink", "nvml-dev", "nvptxcompiler", "nvtx", "nvvm"),
    )
)
# cuda-toolkit 13.5.0 wants cublas 13, npp 13, nvjpeg 13, cufft 12, cusolver 12, cusparse 12, curand 10 and cufile 1.
_OWN_MAJOR_OF_13 = {
    "nvidia-cublas": 13, "nvidia-npp": 13, "nvidia-nvjpeg": 13, "nvidia-cufft": 12, "nvidia-cusolver": 12,
    "nvidia-cusparse": 12, "nvidia-curand": 10, "nvidia-cufile": 1,
}  # fmt: skip
_FIRST_WITHOUT_SUFFIX = 13


def cuda_wheel(library: str, cuda_major: int) -> str:
    """The distribution of a library, such as ``cuda-runtime``, for a CUDA major version."""
    return f"nvidia-{library}" + ("" if cuda_major >= _FIRST_WITHOUT_SUFFIX else f"-cu{cuda_major}")


def cuda_major_of_wheel(name: str, release: str) -> int | None:
    """The CUDA major version of a CUDA wheel (canonical name); None for anything else, or where it cannot be told."""
    suffixed = _SUFFIXED.fullmatch(name)
    if suffixed:
        return int(suffixed[1])
    own = whole_number(release.split(".", maxsplit=1)[0]) or 0
    if name == "cuda-toolkit":
        return own
    if name in _BY_CUDA_VERSION:
        return own if own >= _FIRST_WITHOUT_SUFFIX else None
    return _FIRST_WITHOUT_SUFFIX if own and _OWN_MAJOR_OF_13.get(name) == own else None
