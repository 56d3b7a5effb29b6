"""What must hold in a matrix beyond its form: proofs are there, versions grow, names are known; and its faults."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from gpuenv.matrix.records import CudaMinor, Matrix, MatrixSource, Release, SourceKind, WheelLine
from gpuenv.model.cupy import is_cupy
from gpuenv.model.nvidia import generation_of


class Fault(NamedTuple):
    """What is wrong, and the path of the row (``wheel_lines[1].releases[0]``)."""

    path: str
    text: str


class MatrixError(Exception):
    """The matrix is invalid; ``faults`` has one text a fault, with file and line."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(self.faults))


PLATFORMS = ("linux-x86_64", "linux-aarch64", "windows-x86_64", "windows-arm64")
_ABI = re.compile(r"cp3\d{1,2}t?")
_CODE = re.compile(r"\d{1,2}\.\d[af]?")
_ROCM = re.compile(r"\d{1,4}(?:\.\d{1,4})*")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def faults(matrix: Matrix) -> Iterator[Fault]:
    """Every fault of a matrix."""
    for name, source in matrix.sources.items():
        yield from _source_faults(f"sources.{name}", source)
    yield from _citations(matrix)
    yield from _growth(matrix)
    yield from _generations(matrix)
    yield from _lines(matrix)
    yield from _referred(matrix)
    for table in ("wheel_lines", "rocm_lines"):
        for number, line in enumerate(getattr(matrix, table)):
            yield from _repeated(f"{table}[{number}].releases", [release.cupy for release in line.releases])
    for path, release in _releases(matrix):
        yield from _release_faults(path, release)
    for number, line in enumerate(matrix.wheel_lines):
        for place, release in enumerate(line.releases):
            for text in _built_faults(line, release):
                yield Fault(f"wheel_lines[{number}].releases[{place}]", text)


def _releases(matrix: Matrix) -> Iterator[tuple[str, Release]]:
    """Every release of a line, with the path of its row."""
    for table in ("wheel_lines", "rocm_lines"):
        for number, line in enumerate(getattr(matrix, table)):
            for place, release in enumerate(line.releases):
                yield f"{table}[{number}].releases[{place}]", release


def _source_faults(path: str, source: MatrixSource) -> Iterator[Fault]:
    if source.kind is SourceKind.BINARY and not (source.file and _DIGEST.fullmatch(source.sha256 or "")):
        yield Fault(path, "a binary needs its file name and its sha256 (64 hexadecimal digits)")
    for file, digest in source.also.items():
        if not _DIGEST.fullmatch(digest):
            yield Fault(f"{path}.also", f"{file} needs its sha256 (64 hexadecimal digits)")
    if source.kind is SourceKind.DOCUMENT and not source.title:
        yield Fault(path, "a document needs its title")


def _citations(matrix: Matrix) -> Iterator[Fault]:
    """Every source that a row names is there."""
    tables = (
        *("driver_branches", "cuda_majors", "cuda_minors", "generations", "wheel_lines", "products"),
        "older_products",
        *("conda_builds", "images", "companions", "advisories", "rocm_lines", "peaks", "ngc_releases"),
    )
    for table in tables:
        for number, row in enumerate(getattr(matrix, table)):
            for key in ("source", "driver_source", "state_source"):
                cited = getattr(row, key, None)
                if cited is not None and cited not in matrix.sources:
                    yield Fault(f"{table}[{number}]", f"the source {cited} is not among the sources")
    for path, release in _releases(matrix):
        if release.source not in matrix.sources:
            yield Fault(path, f"the source {release.source} is not among the sources")


def _growth(matrix: Matrix) -> Iterator[Fault]:
    """Newer branches report no older CUDA; a minor is released with a driver no older than the minor before it."""
    branches = sorted(enumerate(matrix.driver_branches), key=lambda pair: pair[1].branch)
    yield from _repeated("driver_branches", [row.branch for row in matrix.driver_branches])
    for (_, older), (number, newer) in pairwise(branches):
        if newer.cuda < older.cuda:
            text = f"branch {newer.branch} reports an older CUDA than branch {older.branch}"
            yield Fault(f"driver_branches[{number}]", text)
    for number, branch in branches:
        if branch.first is not None and branch.first.branch != branch.branch:
            yield Fault(f"driver_branches[{number}]", f"its first release {branch.first} is of another branch")
    minors = sorted(enumerate(matrix.cuda_minors), key=lambda pair: pair[1].cuda)
    yield from _repeated("cuda_minors", [str(row.cuda) for row in matrix.cuda_minors])
    for (_, before), (number, after) in pairwise(minors):
        for name in ("linux", "windows"):
            first, then = getattr(before, name), getattr(after, name)
            if first is not None and then is not None and then < first:
                yield Fault(f"cuda_minors[{number}]", f"CUDA {after.cuda} has an older driver than CUDA {before.cuda}")
    for number, row in minors:
        for text in _minor_faults(row):
            yield Fault(f"cuda_minors[{number}]", text)
    yield from _repeated_names("peaks", [row.names for row in matrix.peaks])
    yield from _repeated("ngc_releases", [f"{row.image}:{row.release}" for row in matrix.ngc_releases])
    yield from _repeated_names("products", [(row.name, *row.aliases) for row in matrix.products])
    yield from _repeated_names("older_products", [(row.name, *row.aliases) for row in matrix.older_products])


def _minor_faults(row: CudaMinor) -> Iterator[str]:
    if not row.capabilities:
        yield f"CUDA {row.cuda} compiles for nothing"
    if len(set(row.capabilities)) < len(row.capabilities):
        yield f"CUDA {row.cuda} names a capability twice"
    if row.cudart is not None and row.cudart.major != row.cuda.major:
        yield f"the cudart of CUDA {row.cuda} accepts a driver of CUDA {row.cudart}"
    if row.linux is not None and row.driver_source is None:
        yield f"the drivers of CUDA {row.cuda} have no driver_source"


def _generations(matrix: Matrix) -> Iterator[Fault]:
    """A capability stands once, and under the name that NVIDIA gives its generation."""
    yield from _repeated_names("generations", [row.capabilities for row in matrix.generations])
    for number, row in enumerate(matrix.generations):
        for capability in row.capabilities:
            name = generation_of(str(capability))
            if name is not None and name != row.name.lower():
                yield Fault(f"generations[{number}]", f"capability {capability} is {name}, not {row.name}")
        if row.first_branch is not None and row.last_branch is not None and row.last_branch < row.first_branch:
            yield Fault(f"generations[{number}]", f"its last branch {row.last_branch} is before its first")


def _lines(matrix: Matrix) -> Iterator[Fault]:
    """Majors have rising floors, lines do not overlap, and every line stands on rows that are there."""
    majors = sorted(enumerate(matrix.cuda_majors), key=lambda pair: pair[1].major)
    yield from _repeated("cuda_majors", [row.major for row in matrix.cuda_majors])
    for (_, older), (number, newer) in pairwise(majors):
        if newer.linux <= older.linux or newer.windows <= older.windows:
            text = f"CUDA {newer.major} has no newer driver floor than CUDA {older.major}"
            yield Fault(f"cuda_majors[{number}]", text)
    yield from _repeated("wheel_lines", [line.name for line in matrix.wheel_lines])
    yield from _repeated("rocm_lines", [line.name for line in matrix.rocm_lines])
    for number, of_rocm in enumerate(matrix.rocm_lines):
        if not _ROCM.fullmatch(of_rocm.rocm):
            yield Fault(f"rocm_lines[{number}]", f"{of_rocm.rocm} is no release of ROCm; expected one like 7.0")
    in_order = sorted(enumerate(matrix.wheel_lines), key=lambda pair: pair[1].first_cuda)
    for (_, one), (number, other) in pairwise(in_order):
        if one.serves(other.first_cuda):
            text = f"{one.name} and {other.name} overlap: both serve CUDA {other.first_cuda}"
            yield Fault(f"wheel_lines[{number}]", text)
    for number, line in enumerate(matrix.wheel_lines):
        for text in _line_faults(line, matrix):
            yield Fault(f"wheel_lines[{number}]", text)


def _line_faults(line: WheelLine, matrix: Matrix) -> Iterator[str]:
    if not is_cupy(line.name):
        yield f"{line.name} is no wheel line of CuPy"
    if line.first_cuda.major != line.cuda_major:
        yield f"first_cuda {line.first_cuda} is outside CUDA {line.cuda_major}"
    elif line.first_cuda not in {row.cuda for row in matrix.cuda_minors}:
        yield f"first_cuda {line.first_cuda} is not among the CUDA minors"
    if line.last_cuda is not None and not line.serves(line.last_cuda):
        yield f"last_cuda {line.last_cuda} is not between {line.first_cuda} and the next CUDA major"
    if line.cuda_major not in {row.major for row in matrix.cuda_majors}:
        yield f"CUDA {line.cuda_major} is not among the CUDA majors"


def _referred(matrix: Matrix) -> Iterator[Fault]:
    """What conda builds, images, companions and advisories refer to is there, and their ranges are ranges."""
    releases = {(line.name, row.cupy) for line in matrix.wheel_lines for row in line.releases}
    for number, build in enumerate(matrix.conda_builds):
        line = next((line for line in matrix.wheel_lines if line.serves(build.cuda)), None)
        if line is None or (line.name, build.cupy) not in releases:
            yield Fault(f"conda_builds[{number}]", f"no wheel line for CUDA {build.cuda} has CuPy {build.cupy}")
        yield from _are_abis(f"conda_builds[{number}].pythons", build.pythons)
    for number, image in enumerate(matrix.images):
        if (image.line is None) != (image.cupy is None):
            yield Fault(f"images[{number}]", "line and cupy stand together")
        elif image.line is not None and (image.line, image.cupy) not in releases:
            yield Fault(f"images[{number}]", f"{image.line} {image.cupy} is not among the wheel lines")
    yield from _repeated("images", [image.reference for image in matrix.images])
    yield from _repeated("advisories", [row.name for row in matrix.advisories])
    for number, advisory in enumerate(matrix.advisories):
        yield from _is_range(f"advisories[{number}]", advisory.cupy)
    for number, companion in enumerate(matrix.companions):
        yield from _is_range(f"companions[{number}]", companion.versions)
        yield from _is_range(f"companions[{number}]", companion.cupy or "")
        if companion.cuda is not None and companion.cuda.major != companion.cuda_major:
            yield Fault(f"companions[{number}]", f"CUDA {companion.cuda} is outside CUDA {companion.cuda_major}")


def _is_range(path: str, text: str) -> Iterator[Fault]:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        yield Fault(path, f"{text} is no version range")


def _are_abis(path: str, tags: Sequence[str]) -> Iterator[Fault]:
    for tag in tags:
        if not _ABI.fullmatch(tag):
            yield Fault(path, f"{tag} is no ABI tag; expected one like cp312 or cp314t")


def _release_faults(path: str, release: Release) -> Iterator[Fault]:
    try:
        Version(release.cupy)
    except ValueError:  # InvalidVersion, or more digits than int takes
        yield Fault(path, f"{release.cupy} is no version")
    for name in ("numpy", "requires_python"):
        yield from _is_range(f"{path}.{name}", getattr(release, name) or "")
    for text in _python_faults(release):
        yield Fault(f"{path}.pythons", text)
    yield from _are_abis(f"{path}.pythons", release.pythons)
    for name, platform in release.platforms.items():
        if name not in PLATFORMS:
            yield Fault(f"{path}.platforms", f"{name} is no platform; expected one of {', '.join(PLATFORMS)}")
        for tag in set(platform.without) - set(release.pythons):
            yield Fault(f"{path}.platforms.{name}", f"without {tag}, which the release does not have at all")
        if name.startswith("linux") and platform.libc is None:
            yield Fault(f"{path}.platforms.{name}", "a Linux wheel needs its oldest C library")


def _built_faults(line: WheelLine, release: Release) -> Iterator[str]:
    """What a release says of CUDA is within its line."""
    if release.built_with is not None and not line.serves(release.built_with):
        yield f"built with CUDA {release.built_with}, which {line.name} does not serve"
    for start in release.nvrtc_caps or {}:
        if not re.fullmatch(rf"{line.cuda_major}\.\d+", start):
            yield f"a cap from NVRTC {start} on, outside CUDA {line.cuda_major}"
    for platform in release.platforms.values():
        for code in (*(platform.sass or ()), *platform.ptx):
            if not _CODE.fullmatch(code):
                yield f"{code} is no capability; expected one like 9.0, 9.0a or 10.0f"


def _python_faults(release: Release) -> Iterator[str]:
    try:
        wanted = SpecifierSet(release.requires_python or "")
    except InvalidSpecifier:
        return  # which is a fault of its own
    for tag in release.pythons:
        if _ABI.fullmatch(tag) and not wanted.contains(f"{tag[2]}.{tag[3:].rstrip('t')}", prereleases=True):
            yield f"{tag} is outside {release.requires_python}"


def _repeated(path: str, names: Sequence[object]) -> Iterator[Fault]:
    yield from _repeated_names(path, [(name,) for name in names])


def _repeated_names(path: str, rows: Sequence[Sequence[object]]) -> Iterator[Fault]:
    """The row in which a name stands that an earlier one has."""
    seen: set[object] = set()
    for number, names in enumerate(rows):
        for name in names:
            if name in seen:
                yield Fault(f"{path}[{number}]", f"{name} stands there twice")
            seen.add(name)
