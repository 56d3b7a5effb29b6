"""Other frameworks in an image, and the CUDA that they bring along."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from packaging.version import Version

from gpuenv.image.dockerfile.build_target import BuildTarget
from gpuenv.image.dockerfile.install_requests import Install, Manager
from gpuenv.matrix.companions import cuda_package
from gpuenv.matrix.tables import Companion, Matrix
from gpuenv.model.versions import CudaVersion

# Extras that bring the CUDA of a major, or are named after it: what uv 0.13 resolved of jax 0.4.30 and 0.12.0.1,
# numba-cuda 0.15.0 and 0.30.4, tensorflow 2.15.1 to 2.21.0 (run 2026-11-21).
_EXTRAS = {
    "jax": re.compile(r"cuda(\d\d)(?:[-_]pip)?"),
    "numba-cuda": re.compile(r"cu(\d\d)"),
    "tensorflow": re.compile(r"and-cuda()"),
}
_OF_TENSORFLOW = 12


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework that a Dockerfile installs, with the CUDA that comes with it.

    Attributes:
        name: distribution name.
        cuda_major: major version of the CUDA that comes with it.
        newest: whether the file names no version, so that the newest release is assumed.
        cuda: CUDA minor version, if known.
        perhaps: whether a condition may skip its installation.
    """

    name: str
    cuda_major: int
    newest: bool = False
    cuda: CudaVersion | None = None
    perhaps: bool = False


def frameworks(target: BuildTarget) -> tuple[Framework, ...]:
    """Frameworks such as torch, with their CUDA: by index, by pinned version, else by the matrix's newest release."""
    rows: dict[str, list[Companion]] = {}
    for row in target.matrix.companions:
        rows.setdefault(row.distribution, []).append(row)
    found: dict[str, Framework] = {}
    for entry in target.installs:
        framework = _framework(entry, rows.get(entry.name, []), target.matrix)
        if framework is not None:
            found[entry.name] = replace(framework, perhaps=entry.perhaps)
    return tuple(framework for framework in found.values() if framework.cuda_major)


def _framework(entry: Install, rows: list[Companion], matrix: Matrix) -> Framework | None:
    major = _extra_major(entry)
    if major is not None:
        return Framework(entry.name, major)
    if entry.manager is not Manager.PIP or not rows:
        return None
    if entry.index_cuda is not None and "+" not in (entry.exact or ""):
        return Framework(entry.name, entry.index_cuda.major, cuda=entry.index_cuda)
    if entry.exact is not None:
        package = cuda_package(entry.name, entry.exact, matrix)
        major = package.cuda_major if package else None
        return Framework(entry.name, major, cuda=package.cuda) if package and major else None
    if entry.specifier or entry.locked:
        return None
    newest = max(rows, key=lambda row: max(map(Version, re.findall(r"[\d.]+\d", row.versions))))
    return Framework(entry.name, newest.cuda_major, newest=True, cuda=newest.cuda)


def _extra_major(entry: Install) -> int | None:
    """The major that an extra names."""
    pattern = _EXTRAS.get(entry.name) if entry.manager is Manager.PIP else None
    found = [match[1] for extra in entry.extras if pattern is not None and (match := pattern.fullmatch(extra))]
    return int(found[0] or _OF_TENSORFLOW) if found else None
