"""A constraint file that keeps later installs to what was chosen. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuenv.model.cuda_wheels import cuda_major_of_wheel
from gpuenv.model.lines import cuda_major, is_cupy

_LINES = ("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x")  # the first is built from its source


def guard_text(packages: Mapping[str, str]) -> str:
    """Constraints: CuPy and the CUDA wheels of its major at their versions, and none of the other lines of today.

    Args:
        packages: name and version of what is installed.
    """
    return "".join(f"{line}\n" for line in _lines(packages))


def _lines(packages: Mapping[str, str]) -> Iterator[str]:
    yield "# Keeps CuPy as gpuenv install has chosen it. Use it with every later install:"
    yield "#   pip install --constraint THIS-FILE PACKAGE    or    uv pip install --constraint THIS-FILE PACKAGE"
    yield "# or for all of them: PIP_CONSTRAINT=THIS-FILE, UV_CONSTRAINT=THIS-FILE."
    chosen = next((name for name in packages if is_cupy(name)), None)
    major = cuda_major(chosen) if chosen else None
    for name, release in sorted(packages.items()):
        if name == chosen or cuda_major_of_wheel(name, release) == major is not None:
            yield f"{name}=={release}"
    if major is not None:
        yield from (f"{line}==0  # shares its files with {chosen}" for line in _LINES if line != chosen)
