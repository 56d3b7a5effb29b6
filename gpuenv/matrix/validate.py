"""What must hold in a matrix beyond its form: proofs are there, versions grow, names are known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from gpuenv.matrix.records import Matrix, MatrixSource, Release, SourceKind

PLATFORMS = ("linux-x86_64", "linux-aarch64", "windows-x86_64", "windows-arm64")
_ABI = re.compile(r"cp3\d{1,2}t?")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, and the path of the row."""

    path: str
    text: str


def faults(matrix: Matrix) -> Iterator[Fault]:
    """Every fault of a matrix."""
    for name, source in matrix.sources.items():
        yield from _source_faults(f"sources.{name}", source)
    yield from _citations(matrix)
    yield from _growth(matrix)
    for number, line in enumerate(matrix.wheel_lines):
        yield from _repeated(f"wheel_lines[{number}].releases", [release.cupy for release in line.releases])
        for place, release in enumerate(line.releases):
            yield from _release_faults(f"wheel_lines[{number}].releases[{place}]", release)


def _source_faults(path: str, source: MatrixSource) -> Iterator[Fault]:
    if source.kind is SourceKind.BINARY and not (source.file and _DIGEST.fullmatch(source.sha256 or "")):
        yield Fault(path, "a binary needs its file name and its sha256 (64 hexadecimal digits)")
    if source.kind is SourceKind.DOCUMENT and not source.title:
        yield Fault(path, "a document needs its title")


def _citations(matrix: Matrix) -> Iterator[Fault]:
    """Every source that a row names is there."""
    tables = ("driver_branches", "cuda_majors", "cuda_minors", "generations", "wheel_lines", "products")
    for table in tables:
        for number, row in enumerate(getattr(matrix, table)):
            for key in ("source", "driver_source"):
                cited = getattr(row, key, None)
                if cited is not None and cited not in matrix.sources:
                    yield Fault(f"{table}[{number}]", f"the source {cited} is not among the sources")
    for number, line in enumerate(matrix.wheel_lines):
        for place, release in enumerate(line.releases):
            if release.source not in matrix.sources:
                path = f"wheel_lines[{number}].releases[{place}]"
                yield Fault(path, f"the source {release.source} is not among the sources")


def _growth(matrix: Matrix) -> Iterator[Fault]:
    """Newer branches report no older CUDA; a minor is released with a driver no older than the minor before it."""
    branches = sorted(matrix.driver_branches, key=lambda row: row.branch)
    yield from _repeated("driver_branches", [row.branch for row in branches])
    for older, newer in pairwise(branches):
        if newer.cuda < older.cuda:
            yield Fault("driver_branches", f"branch {newer.branch} reports an older CUDA than branch {older.branch}")
    minors = sorted(matrix.cuda_minors, key=lambda row: row.cuda)
    yield from _repeated("cuda_minors", [str(row.cuda) for row in minors])
    for before, after in pairwise(minors):
        if before.linux and after.linux and after.linux < before.linux:
            yield Fault("cuda_minors", f"CUDA {after.cuda} has an older driver than CUDA {before.cuda}")
    for row in minors:
        if not row.capabilities:
            yield Fault("cuda_minors", f"CUDA {row.cuda} compiles for nothing")
    yield from _repeated("products", [name for row in matrix.products for name in (row.name, *row.aliases)])


def _release_faults(path: str, release: Release) -> Iterator[Fault]:
    try:
        Version(release.cupy)
    except InvalidVersion:
        yield Fault(path, f"{release.cupy} is no version")
    for name in ("numpy", "requires_python"):
        try:
            SpecifierSet(getattr(release, name) or "")
        except InvalidSpecifier:
            yield Fault(f"{path}.{name}", f"{getattr(release, name)} is no version range")
    for tag in release.pythons:
        if not _ABI.fullmatch(tag):
            yield Fault(f"{path}.pythons", f"{tag} is no ABI tag; expected one like cp312 or cp314t")
    for name, platform in release.platforms.items():
        if name not in PLATFORMS:
            yield Fault(f"{path}.platforms", f"{name} is no platform; expected one of {', '.join(PLATFORMS)}")
        if name.startswith("linux") and platform.libc is None:
            yield Fault(f"{path}.platforms.{name}", "a Linux wheel needs its oldest C library")


def _repeated(path: str, names: Sequence[object]) -> Iterator[Fault]:
    seen: set[object] = set()
    for name in names:
        if name in seen:
            yield Fault(path, f"{name} stands there twice")
        seen.add(name)
