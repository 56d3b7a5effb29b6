"""Which CUDA an index of wheels is for, by its address."""

from __future__ import annotations

import re

from gpuenv.image.dockerfile.variables import Lookup
from gpuenv.model.versions import CudaVersion

NO_CUDA = CudaVersion(0, 0)

_CUDA = re.compile(r"/whl/(?:nightly/)?(?:cu(\d\d)(\d)|(cpu))(?![\w.])")
_VARIABLES = tuple(
    f"{tool}_{name}"
    for tool in ("PIP", "UV")
    for name in ("INDEX_URL", "EXTRA_INDEX_URL", "DEFAULT_INDEX", "INDEX", "FIND_LINKS")
)
_BACKEND = re.compile(r"cu(\d\d)(\d)|(cpu)")


def index_cuda(text: str) -> CudaVersion | None:
    """The CUDA of an index that a text names; ``NO_CUDA`` for one without it, none where it tells nothing."""
    return _cuda(_CUDA.search(text))


def backend_cuda(text: str) -> CudaVersion | None:
    """The CUDA that uv's --torch-backend names: cu126, cpu; none for one that uv detects itself."""
    return _cuda(_BACKEND.fullmatch(text))


def environment_cuda(lookup: Lookup) -> CudaVersion | None:
    """The CUDA of the index that pip's and uv's variables name."""
    named = [index_cuda(lookup(name) or "") for name in _VARIABLES]
    named.append(backend_cuda(lookup("UV_TORCH_BACKEND") or ""))
    return next((cuda for cuda in named if cuda is not None), None)


def _cuda(match: re.Match[str] | None) -> CudaVersion | None:
    return None if match is None else NO_CUDA if match[3] else CudaVersion(int(match[1]), int(match[2]))
