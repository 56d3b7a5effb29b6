"""CuPy's wheel lines: the distributions that install the module ``cupy``."""

from __future__ import annotations

import re

from gpuenv.model.versions import CudaVersion

_LINE = re.compile(r"cupy-cuda(\d{2})(x|\d)")
_ROCM_LINE = re.compile(r"cupy-rocm-\d+-\d+")
_OTHER_DISTRIBUTIONS = ("cupy", "cupy-core")  # source or conda, and conda's core package


def is_cupy(distribution: str) -> bool:
    """Whether a distribution (canonical name) is CuPy itself, not something built on it."""
    return (
        bool(_LINE.fullmatch(distribution) or _ROCM_LINE.fullmatch(distribution))
        or distribution in _OTHER_DISTRIBUTIONS
    )


def cuda_major(distribution: str) -> int | None:
    """The CUDA major version of a wheel line: 12 for ``cupy-cuda12x``; None for source, conda and ROCm builds."""
    match = _LINE.fullmatch(distribution)
    return int(match[1]) if match else None


def single_minor(distribution: str) -> CudaVersion | None:
    """The one CUDA minor of an old line: 11.2 for ``cupy-cuda112``; None for the lines that serve a whole major."""
    match = _LINE.fullmatch(distribution)
    return CudaVersion(int(match[1]), int(match[2])) if match and match[2] != "x" else None
