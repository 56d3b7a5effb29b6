"""Which CUDA an index of wheels is for, by its address. Pure."""

from __future__ import annotations

import re

from gpuenv.image.check.variables import Lookup

_CUDA = re.compile(r"/whl/(?:nightly/)?(?:cu(\d\d)(\d)|(cpu))(?![\w.])")
_VARIABLES = tuple(
    f"{tool}_{name}"
    for tool in ("PIP", "UV")
    for name in ("INDEX_URL", "EXTRA_INDEX_URL", "DEFAULT_INDEX", "INDEX", "FIND_LINKS")
)
_BACKEND = re.compile(r"cu(\d\d)(\d)|(cpu)")


def index_major(text: str) -> int | None:
    """The CUDA major of an index that a text names; 0 for one without CUDA, none where it tells nothing."""
    return _major(_CUDA.search(text))


def backend_major(text: str) -> int | None:
    """Likewise of what uv's --torch-backend names: cu126, cpu; what it is to find out by itself tells nothing."""
    return _major(_BACKEND.fullmatch(text))


def environment_major(lookup: Lookup) -> int | None:
    """Likewise of what pip's and uv's variables name."""
    named = [index_major(lookup(name) or "") for name in _VARIABLES]
    named.append(backend_major(lookup("UV_TORCH_BACKEND") or ""))
    return next((major for major in named if major is not None), None)


def _major(match: re.Match[str] | None) -> int | None:
    return None if match is None else 0 if match[3] else int(match[1])
