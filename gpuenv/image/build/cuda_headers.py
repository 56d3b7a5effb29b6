"""Whether a wheel of CuPy has the CUDA headers that it compiles kernels with.

What the wheels of cupy-cuda12x compile with where there are no others (their own options and NVRTC 12.1 to 12.9, tried
2026-11-21): 14 has none; 13.6.0 has some for 12.1, and none from 12.2 on; 13.5.1 has some for 12.2 to 12.8, of which
those up to 12.6 want vector_types.h of the runtime. CuPy's Installation, "CuPy always raises NVRTC_ERROR_COMPILATION
(6)", says of every release: from CUDA 12.2 on the headers of the runtime are required.
"""

from __future__ import annotations

from packaging.version import Version

from gpuenv.model.versions import CudaVersion

_FIRST_WITH_NONE, _FIRST_WITH_FEW = Version("14"), Version("13.6")
_FIRST_NOT_BUNDLED = CudaVersion(12, 2)


def has_own_headers(cupy: str, cuda: CudaVersion | None) -> bool | None:
    """Whether a release compiles with headers of its own; None where it should not, and was not tried."""
    if Version(cupy) >= _FIRST_WITH_NONE:
        return False
    if cuda is None or cuda < _FIRST_NOT_BUNDLED:
        return True
    return False if Version(cupy) >= _FIRST_WITH_FEW else None
