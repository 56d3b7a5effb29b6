"""Finds wheel lines of CuPy that the matrix does not have, by the names that the next ones would have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from packaging.version import Version

from gpuenv.matrix.tables import Matrix
from gpuenv.refresh.package_index import Index, NoReleaseError

_AHEAD = 2  # CUDA majors, and ROCm minors, after the newest known ones
_REASON = "which CUDA or ROCm versions and drivers it runs with is documented, not measured; add the line by hand"


class NewLine(NamedTuple):
    """A distribution of CuPy without a line in the matrix, and the reason why it is not added."""

    name: str
    releases: tuple[str, ...]
    reason: str


def next_names(matrix: Matrix) -> Iterator[str]:
    """Yields the names of the next lines for CUDA and ROCm."""
    newest = max(line.cuda_major for line in matrix.wheel_lines)
    for major in range(newest + 1, newest + 1 + _AHEAD):
        yield f"cupy-cuda{major}x"
    versions = [tuple(map(int, line.rocm.split(".")[:2])) for line in matrix.rocm_lines]
    if versions:
        major, minor = max(versions)
        for ahead in range(1, _AHEAD + 1):
            yield f"cupy-rocm-{major}-{minor + ahead}"
        yield f"cupy-rocm-{major + 1}-0"


def new_line(name: str, index: Index) -> NewLine | None:
    """Returns a line with its releases, the newest first; None if the index does not have it."""
    try:
        releases = sorted(set(index.unknown(name, ">0", ())), key=Version, reverse=True)
    except NoReleaseError:
        return None
    return NewLine(name, tuple(releases), _REASON) if releases else None
