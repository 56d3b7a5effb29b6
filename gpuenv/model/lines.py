"""CuPy's wheel lines: the distributions that install the module ``cupy``."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.model.pattern import pattern

_LINE = pattern(r"cupy-cuda(?:(1\d)[x\d]|([789])\d)")
_ROCM_LINE = pattern(r"cupy-rocm-\d+-\d+")
_OTHER_DISTRIBUTIONS = ("cupy", "cupy-core")  # source or conda, and conda's core package


def is_cupy(distribution: str) -> bool:
    """Whether a distribution (canonical name) is CuPy itself, not something built on it."""
    return (
        bool(_LINE.fullmatch(distribution) or _ROCM_LINE.fullmatch(distribution))
        or distribution in _OTHER_DISTRIBUTIONS
    )


def cuda_major(distribution: str) -> int | None:
    """The CUDA major version of a wheel line: 12 for ``cupy-cuda12x``, 9 for ``cupy-cuda90``; else None."""
    match = _LINE.fullmatch(distribution)
    return int(match[1] or match[2]) if match else None


def cuda_major_of(distribution: str, packages: Mapping[str, str]) -> int | None:
    """The CUDA major of an installed CuPy: by its line, or by conda's package ``cuda-version`` beside it."""
    if distribution in _OTHER_DISTRIBUTIONS:
        told = packages.get("cuda-version", "").split(".")[0]
        return int(told) if told.isdigit() else None
    return cuda_major(distribution)


def is_rocm(distribution: str) -> bool:
    """Whether a CuPy is built for AMD's ROCm."""
    return bool(_ROCM_LINE.fullmatch(distribution))
