"""Validates a matrix beyond its form: citations, order of versions, known names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import pairwise
from typing import Any, NamedTuple

from packaging.requirements import Requirement

from gpuenv.matrix.ranges import is_version, within
from gpuenv.matrix.tables import SOURCE_KEYS, CudaMinor, Matrix, MatrixSource, Release, SourceKind, WheelLine
from gpuenv.model.codec import field_names
from gpuenv.model.cupy import is_cupy
from gpuenv.model.errors import GpuenvError
from gpuenv.model.gpus import is_gfx
from gpuenv.model.nvidia import generation_of
from gpuenv.model.strings import Lines

PLATFORMS = ("linux-x86_64", "linux-aarch64", "windows-x86_64", "windows-arm64")
_TABLES = (
    *("driver_branches", "cuda_majors", "cuda_minors", "generations", "wheel_lines", "products", "older_products"),
    *("conda_builds", "images", "companions", "advisories", "rocm_lines", "peaks", "ngc_releases"),
    *("base_images", "amd_products"),
)
_REQUIRED = ("driver_branches", "cuda_majors", "cuda_minors", "generations", "wheel_lines", "products")
_EXTRA = re.compile(r"[A-Za-z0-9][\w.-]*")
_REFERENCE = re.compile(r"[a-z0-9][\w./:@-]*")
_ABI = re.compile(r"cp3\d{1,2}t?")
_CODE = re.compile(r"\d{1,2}\.\d[af]?")
_ROCM = re.compile(r"\d{1,4}(?:\.\d{1,4})*")
_GROUPS = {"cuda", "flavour", "python", "image", "release"}
_DIGEST = re.compile(r"[0-9a-f]{64}")


class MatrixFault(NamedTuple):
    """A fault and the path of its row (``wheel_lines[1].releases[0]``)."""

    path: str
    text: str


class MatrixError(GpuenvError):
    """The matrix is invalid; ``faults`` has one text per fault, with file and line."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__(Lines(self.faults))


def faults(matrix: Matrix) -> Iterator[MatrixFault]:
    """Yields every fault of a matrix."""
    yield from _head_faults(matrix)
    for name, source in matrix.sources.items():
        yield from _source_faults(f"sources.{name}", source)
    yield from _citation_faults(matrix)
    yield from _growth_faults(matrix)
    yield from _generation_faults(matrix)
    yield from _line_faults(matrix)
    yield from _reference_faults(matrix)
    yield from _base_image_faults(matrix)
    for path, line in _rows(matrix, "wheel_lines", "rocm_lines"):
        yield from _repeated(f"{path}.releases", [release.cupy for release in line.releases])
    for path, release in _releases(matrix):
        yield from _release_faults(path, release)
    for path, line in _rows(matrix, "wheel_lines"):
        for number, release in enumerate(line.releases):
            yield from (MatrixFault(f"{path}.releases[{number}]", text) for text in _build_faults(line, release))


def _head_faults(matrix: Matrix) -> Iterator[MatrixFault]:
    """The revision is a day, the tables that decide have rows, and no text has control characters."""
    try:
        is_day = date.fromisoformat(matrix.revision).isoformat() == matrix.revision
    except ValueError:
        is_day = False
    if not is_day:
        yield MatrixFault("revision", "expected a day, such as 2026-11-23")
    for table in _REQUIRED:
        if not getattr(matrix, table):
            yield MatrixFault(table, "has no rows")
    for table in field_names(Matrix):
        for path in _unprintable(getattr(matrix, table)):
            yield MatrixFault(f"{table}{path}", "a text with control characters or line ends")


def _unprintable(value: object) -> Iterator[str]:
    """Yields the path in a value of every text and key with control characters or line ends."""
    if isinstance(value, str):
        if not value.isprintable():
            yield ""
    elif isinstance(value, tuple):  # a list, or a record
        names = getattr(value, "_fields", None)
        for number, item in enumerate(value):
            for path in _unprintable(item):
                yield f".{names[number]}{path}" if names else f"[{number}]{path}"
    elif isinstance(value, dict):
        for key, item in value.items():
            if not key.isprintable():
                yield f".{key}"
            for path in _unprintable(item):
                yield f".{key}{path}"


def _rows(matrix: Matrix, *tables: str) -> Iterator[tuple[str, Any]]:
    """Yields the rows of some tables with their paths."""
    return ((f"{table}[{number}]", row) for table in tables for number, row in enumerate(getattr(matrix, table)))


def _releases(matrix: Matrix) -> Iterator[tuple[str, Release]]:
    for path, line in _rows(matrix, "wheel_lines", "rocm_lines"):
        yield from ((f"{path}.releases[{number}]", release) for number, release in enumerate(line.releases))


def _source_faults(path: str, source: MatrixSource) -> Iterator[MatrixFault]:
    if source.kind is SourceKind.BINARY and not (source.file and _DIGEST.fullmatch(source.sha256 or "")):
        yield MatrixFault(path, "a binary needs its file name and its sha256 (64 hexadecimal digits)")
    for file, digest in source.also.items():
        if not _DIGEST.fullmatch(digest):
            yield MatrixFault(f"{path}.also", f"{file} needs its sha256 (64 hexadecimal digits)")
    if source.kind is SourceKind.DOCUMENT and not source.title:
        yield MatrixFault(path, "a document needs its title")


def _citation_faults(matrix: Matrix) -> Iterator[MatrixFault]:
    """Every source that a row cites exists."""
    for path, row in (*_rows(matrix, *_TABLES), *_releases(matrix)):
        for key in SOURCE_KEYS:
            cited = getattr(row, key, None)
            if cited is not None and cited not in matrix.sources:
                yield MatrixFault(path, f"the source {cited} is not among the sources")


def _growth_faults(matrix: Matrix) -> Iterator[MatrixFault]:
    """Newer branches report no older CUDA; newer minor versions have no older drivers."""
    branches = sorted(_rows(matrix, "driver_branches"), key=lambda pair: pair[1].branch)
    yield from _repeated("driver_branches", [row.branch for row in matrix.driver_branches])
    for (_, older), (path, newer) in pairwise(branches):
        if newer.cuda < older.cuda:
            yield MatrixFault(path, f"branch {newer.branch} reports an older CUDA than branch {older.branch}")
    for path, branch in branches:
        if branch.first is not None and branch.first.branch != branch.branch:
            yield MatrixFault(path, f"its first release {branch.first} is of another branch")
    minors = sorted(_rows(matrix, "cuda_minors"), key=lambda pair: pair[1].cuda)
    yield from _repeated("cuda_minors", [str(row.cuda) for row in matrix.cuda_minors])
    for (_, before), (path, after) in pairwise(minors):
        for name in ("linux", "windows"):
            first, then = getattr(before, name), getattr(after, name)
            if first is not None and then is not None and then < first:
                yield MatrixFault(path, f"CUDA {after.cuda} has an older driver than CUDA {before.cuda}")
    for path, row in minors:
        yield from (MatrixFault(path, text) for text in _minor_faults(row))
    yield from _repeated_names("peaks", [row.names for row in matrix.peaks])
    releases = [[f"{image}:{row.release}" for image in row.images] for row in matrix.ngc_releases]
    yield from _repeated_names("ngc_releases", releases)
    yield from _repeated_names("products", [(row.name, *row.aliases) for row in matrix.products])
    yield from _repeated_names("older_products", [(row.name, *row.aliases) for row in matrix.older_products])
    yield from _amd_faults(matrix)


def _amd_faults(matrix: Matrix) -> Iterator[MatrixFault]:
    yield from _repeated("amd_products", [row.name for row in matrix.amd_products])
    for path, product in _rows(matrix, "amd_products"):
        if not is_gfx(product.gfx):
            yield MatrixFault(path, f"{product.gfx} is no target; expected one like gfx90a")


def _minor_faults(row: CudaMinor) -> Iterator[str]:
    if not row.capabilities:
        yield f"CUDA {row.cuda} compiles for nothing"
    if len(set(row.capabilities)) < len(row.capabilities):
        yield f"CUDA {row.cuda} names a capability twice"
    if row.cudart is not None and row.cudart.major != row.cuda.major:
        yield f"the cudart of CUDA {row.cuda} accepts a driver of CUDA {row.cudart}"
    if row.linux is not None and row.driver_source is None:
        yield f"the drivers of CUDA {row.cuda} have no driver_source"


def _generation_faults(matrix: Matrix) -> Iterator[MatrixFault]:
    """Each capability occurs once, under NVIDIA's name of its generation."""
    yield from _repeated_names("generations", [row.capabilities for row in matrix.generations])
    for path, row in _rows(matrix, "generations"):
        for capability in row.capabilities:
            name = generation_of(str(capability))
            if name is not None and name != row.name.lower():
                yield MatrixFault(path, f"capability {capability} is {name}, not {row.name}")
        if row.first_branch is not None and row.last_branch is not None and row.last_branch < row.first_branch:
            yield MatrixFault(path, f"its last branch {row.last_branch} is before its first")


def _line_faults(matrix: Matrix) -> Iterator[MatrixFault]:
    """Major versions have rising minimum drivers, lines do not overlap, and their rows exist."""
    majors = sorted(_rows(matrix, "cuda_majors"), key=lambda pair: pair[1].major)
    yield from _repeated("cuda_majors", [row.major for row in matrix.cuda_majors])
    for (_, older), (path, newer) in pairwise(majors):
        if newer.linux <= older.linux or newer.windows <= older.windows:
            yield MatrixFault(path, f"CUDA {newer.major} has no newer driver floor than CUDA {older.major}")
    yield from _repeated("wheel_lines", [line.name for line in matrix.wheel_lines])
    yield from _repeated("rocm_lines", [line.name for line in matrix.rocm_lines])
    for path, line in _rows(matrix, "rocm_lines"):
        if not _ROCM.fullmatch(line.rocm):
            yield MatrixFault(path, f"{line.rocm} is no release of ROCm; expected one like 7.0")
    in_order = sorted(_rows(matrix, "wheel_lines"), key=lambda pair: pair[1].first_cuda)
    for (_, one), (path, other) in pairwise(in_order):
        if one.serves(other.first_cuda):
            yield MatrixFault(path, f"{one.name} and {other.name} overlap: both serve CUDA {other.first_cuda}")
    for path, line in _rows(matrix, "wheel_lines"):
        yield from (MatrixFault(path, text) for text in _one_line_faults(line, matrix))


def _one_line_faults(line: WheelLine, matrix: Matrix) -> Iterator[str]:
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


def _reference_faults(matrix: Matrix) -> Iterator[MatrixFault]:
    """References of conda builds, images, companions and advisories exist, and their ranges are valid."""
    releases = {(line.name, row.cupy) for line in matrix.wheel_lines for row in line.releases}
    for path, build in _rows(matrix, "conda_builds"):
        line = next((line for line in matrix.wheel_lines if line.serves(build.cuda)), None)
        if line is None or (line.name, build.cupy) not in releases:
            yield MatrixFault(path, f"no wheel line for CUDA {build.cuda} has CuPy {build.cupy}")
        yield from _abi_faults(f"{path}.pythons", build.pythons)
    for path, image in _rows(matrix, "images"):
        if not _REFERENCE.fullmatch(image.reference):
            yield MatrixFault(path, f"{image.reference} is no reference of an image")
        if (image.line is None) != (image.cupy is None):
            yield MatrixFault(path, "line and cupy stand together")
        elif image.line is not None and (image.line, image.cupy) not in releases:
            yield MatrixFault(path, f"{image.line} {image.cupy} is not among the wheel lines")
    yield from _repeated("images", [image.reference for image in matrix.images])
    yield from _repeated("advisories", [row.name for row in matrix.advisories])
    for path, advisory in _rows(matrix, "advisories"):
        yield from _range_faults(path, advisory.cupy)
    for path, companion in _rows(matrix, "companions"):
        yield from _range_faults(path, companion.versions)
        yield from _range_faults(path, companion.cupy or "")
        if companion.cuda is not None and companion.cuda.major != companion.cuda_major:
            yield MatrixFault(path, f"CUDA {companion.cuda} is outside CUDA {companion.cuda_major}")


def _base_image_faults(matrix: Matrix) -> Iterator[MatrixFault]:
    yield from _repeated("base_images", [rule.pattern for rule in matrix.base_images])
    for path, rule in _rows(matrix, "base_images"):
        try:
            groups = set(re.compile(rule.pattern).groupindex)
        except re.error as error:
            yield MatrixFault(path, f"{rule.pattern} is no regular expression: {error}")
            continue
        for group in sorted(groups - _GROUPS):
            yield MatrixFault(path, f"{group} is no group of a pattern; expected one of {', '.join(sorted(_GROUPS))}")
        if ("image" in groups) != ("release" in groups):
            yield MatrixFault(path, "the groups image and release stand together")


def _range_faults(path: str, text: str) -> Iterator[MatrixFault]:
    try:
        within("1", text)
    except ValueError:  # InvalidSpecifier, or more digits than int accepts
        yield MatrixFault(path, f"{text[:60]} is no version range")


def _abi_faults(path: str, tags: Sequence[str]) -> Iterator[MatrixFault]:
    for tag in tags:
        if not _ABI.fullmatch(tag):
            yield MatrixFault(path, f"{tag} is no ABI tag; expected one like cp312 or cp314t")


def _release_faults(path: str, release: Release) -> Iterator[MatrixFault]:
    if not is_version(release.cupy):
        yield MatrixFault(path, f"{release.cupy} is no version")
    yield from _range_faults(f"{path}.numpy", release.numpy)
    yield from _extra_faults(f"{path}.extras", release)
    wanted = release.requires_python or ""
    range_faults = list(_range_faults(f"{path}.requires_python", wanted))
    yield from range_faults
    if not range_faults:
        for tag in release.pythons:
            if _ABI.fullmatch(tag) and not within(f"{tag[2]}.{tag[3:].rstrip('t')}", wanted):
                yield MatrixFault(f"{path}.pythons", f"{tag} is outside {release.requires_python}")
    yield from _abi_faults(f"{path}.pythons", release.pythons)
    for name, platform in release.platforms.items():
        if name not in PLATFORMS:
            yield MatrixFault(f"{path}.platforms", f"{name} is not a platform; expected one of {', '.join(PLATFORMS)}")
        for tag in set(platform.without) - set(release.pythons):
            yield MatrixFault(f"{path}.platforms.{name}", f"without {tag}: the release has no wheel with this tag")
        if name.startswith("linux") and platform.libc is None:
            yield MatrixFault(f"{path}.platforms.{name}", "a Linux wheel needs its oldest C library")


def _extra_faults(path: str, release: Release) -> Iterator[MatrixFault]:
    for name, extra in release.extras.items():
        if not _EXTRA.fullmatch(name):
            yield MatrixFault(path, f"{name} is no name of an extra")
        try:
            Requirement(extra.requirement)
        except ValueError:  # InvalidRequirement, or more digits than int accepts
            yield MatrixFault(f"{path}.{name}", f"{extra.requirement} is no requirement")


def _build_faults(line: WheelLine, release: Release) -> Iterator[str]:
    """The CUDA facts of a release match its line."""
    if release.built_with is not None and not line.serves(release.built_with):
        yield f"built with CUDA {release.built_with}, which {line.name} does not serve"
    for start in release.nvrtc_caps or {}:
        if not re.fullmatch(rf"{line.cuda_major}\.\d+", start):
            yield f"a cap from NVRTC {start} on, outside CUDA {line.cuda_major}"
    for platform in release.platforms.values():
        for code in (*(platform.sass or ()), *platform.ptx):
            if not _CODE.fullmatch(code):
                yield f"{code} is no capability; expected one like 9.0, 9.0a or 10.0f"


def _repeated(path: str, names: Sequence[object]) -> Iterator[MatrixFault]:
    return _repeated_names(path, [(name,) for name in names])


def _repeated_names(path: str, rows: Sequence[Sequence[object]]) -> Iterator[MatrixFault]:
    """Yields each row with a name of an earlier row."""
    seen: set[object] = set()
    for number, names in enumerate(rows):
        for name in names:
            if name in seen:
                yield MatrixFault(f"{path}[{number}]", f"{name} occurs twice")
            seen.add(name)
