"""Lookup of matrix rows with their facts and sources, and the grid of drivers and GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpuenv.matrix.alternatives import admits
from gpuenv.matrix.assume import assume
from gpuenv.matrix.candidates import TEGRA, WheelCandidate, by_preference
from gpuenv.matrix.constraints import fits, oldest_driver, runs
from gpuenv.matrix.needs import Needs, needs_of
from gpuenv.matrix.products import branch_of, find_gpu
from gpuenv.matrix.ranges import version_of
from gpuenv.matrix.resolve import choose, judge
from gpuenv.matrix.tables import AmdProduct, DriverBranch, Generation, Matrix, MatrixSource, Product, Release, WheelLine
from gpuenv.model.codec import encode
from gpuenv.model.resolution import Candidate, Rejection, WheelChoice
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.versions import ComputeCapability, DriverVersion

SCHEMA = "gpuenv.matrix-rows/1"
_SOURCES = ("source", "driver_source", "state_source", "toolkit_source")
_NOT_FACTS = (*_SOURCES, "releases")


@dataclass(frozen=True, slots=True)
class RowSource:
    """Source of a row or a part of it."""

    name: str
    citation: str
    details: MatrixSource


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    Attributes:
        name: what ``--row`` takes: ``driver/580``, ``cuda/12.9``, ``cupy-cuda12x/14.2.0``.
    """

    name: str
    table: str
    facts: Mapping[str, str]
    proofs: tuple[RowSource, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """The selected rows."""

    rows: tuple[Row, ...]
    matrix_revision: str
    schema: str = SCHEMA


class RowFilter(NamedTuple):
    """Filters of rows; all that are set must match."""

    row: str | None = None
    line: str | None = None
    gpu: str | None = None
    driver: str | None = None


class NoSuchRowError(ValueError):
    """A filter matches nothing in the matrix."""


def select_rows(matrix: Matrix, filters: RowFilter) -> Rows:
    """Returns the rows that match every filter.

    Raises:
        NoSuchRowError: a filter matches nothing.
        ProductError, ValueError: a GPU or a driver is unknown.
    """
    conditions: list[_Filter] = []
    if filters.row is not None:
        name = filters.row.lower()
        conditions.append(lambda _, row: row.name.lower() == name or row.name.lower().startswith(f"{name}/"))
    if filters.line is not None:
        conditions.append(_line_filter(matrix, filters.line))
    if filters.gpu is not None:
        product = find_gpu(filters.gpu, matrix)
        conditions.append(_amd_filter(product) if isinstance(product, AmdProduct) else _gpu_filter(product))
    if filters.driver is not None:
        conditions.append(_driver_filter(matrix, DriverVersion.parse(filters.driver)))
    rows = tuple(
        row
        for table, records, name_of in _tables(matrix)
        for record in records
        for row in (_row(name_of(record), table, record, matrix),)
        if all(passes(record, row) for passes in conditions)
    )
    if not rows:
        arguments = ", ".join(f"--{name} {value}" for name, value in filters._asdict().items() if value is not None)
        raise NoSuchRowError(f"no row matches {arguments}; `gpuenv matrix show --full` lists all rows")
    # What a GPU is goes before what it needs.
    ordered = sorted(rows, key=lambda row: filters.gpu is None or "products" not in row.table)
    return Rows(tuple(ordered), matrix.revision)


_Filter = Callable[[object, Row], bool]


def _line_filter(matrix: Matrix, name: str) -> _Filter:
    line = next((line for line in matrix.wheel_lines if name in (line.name, line.name.removeprefix("cupy-cuda"))), None)
    if line is None:
        raise NoSuchRowError(f"--line {name}: expected one of {', '.join(line.name for line in matrix.wheel_lines)}")

    def passes(record: object, row: Row) -> bool:
        if row.table == "wheel_lines":
            return row.name.partition("/")[0] == line.name
        major = getattr(record, "cuda_major", getattr(record, "major", None))
        cuda = getattr(record, "cuda", None)
        if row.table == "driver_branches" or cuda is None:
            return major == line.cuda_major
        return bool(cuda.major == line.cuda_major)

    return passes


def _gpu_filter(product: Product) -> _Filter:
    capability = product.compute_capability

    def passes(record: object, row: Row) -> bool:
        if row.table in ("products", "older_products"):
            return record is product
        if row.table == "wheel_lines":  # some wheel has machine code for the GPU; PTX depends on the driver
            codes = [code for platform in getattr(record, "platforms", {}).values() for code in platform.sass or ()]
            return any(runs(code, capability) for code in codes)
        return capability in getattr(record, "capabilities", ())

    return passes


def _amd_filter(product: AmdProduct) -> _Filter:
    def passes(record: object, row: Row) -> bool:
        platforms = getattr(record, "platforms", {}).values() if row.table == "rocm_lines" else ()
        return record is product or any(product.gfx in (platform.gfx or ()) for platform in platforms)

    return passes


def _driver_filter(matrix: Matrix, driver: DriverVersion) -> _Filter:
    branch = branch_of(driver, matrix)
    known = next((row for row in matrix.driver_branches if row.branch == branch), None)
    if known is None:
        newest = max(row.branch for row in matrix.driver_branches)
        raise NoSuchRowError(f"--driver {driver}: the matrix has no branch {branch}; its newest is {newest}")
    level = known.cuda
    if driver.is_bare_branch and known.first is not None:
        driver = known.first

    def passes(record: object, row: Row) -> bool:
        if row.table == "driver_branches":
            return bool(getattr(record, "branch", None) == branch)
        if row.table == "cuda_majors":
            return bool(driver >= record.linux)  # type: ignore[attr-defined]
        if row.table == "generations":
            first, last = getattr(record, "first_branch", None), getattr(record, "last_branch", None)
            return (first is None or first <= branch) and (last is None or branch <= last)
        return row.table == "images" and admits(record, level, branch)  # type: ignore[arg-type]

    return passes


_Table = tuple[str, Sequence[Any], Callable[[Any], str]]


def _tables(matrix: Matrix) -> Iterator[_Table]:
    yield "driver_branches", matrix.driver_branches, lambda row: f"driver/{row.branch}"
    yield "cuda_majors", matrix.cuda_majors, lambda row: f"cuda/{row.major}"
    yield "cuda_minors", matrix.cuda_minors, lambda row: f"cuda/{row.cuda}"
    yield "generations", matrix.generations, lambda row: f"generation/{row.name} {row.capabilities[0]}"
    for line in matrix.wheel_lines:
        yield "wheel_lines", line.releases, lambda row, of=line.name: f"{of}/{row.cupy}"  # type: ignore[misc]
    for rocm in matrix.rocm_lines:
        yield "rocm_lines", rocm.releases, lambda row, of=rocm.name: f"{of}/{row.cupy}"  # type: ignore[misc]
    yield "conda_builds", matrix.conda_builds, lambda row: f"conda/{row.cupy}-cuda{row.cuda}"
    yield "images", matrix.images, lambda row: f"image/{row.reference}"
    yield "companions", matrix.companions, lambda row: f"companion/{row.distribution}{row.versions}"
    yield "advisories", matrix.advisories, lambda row: f"advisory/{row.name}"
    yield "peaks", matrix.peaks, lambda row: f"peak/{row.names[0]}"
    yield "ngc_releases", matrix.ngc_releases, lambda row: f"ngc/{','.join(row.images)}:{row.release}"
    yield "base_images", matrix.base_images, lambda row: f"base-image/{row.pattern}"
    yield "products", matrix.products, lambda row: f"gpu/{row.name}"
    yield "older_products", matrix.older_products, lambda row: f"older-gpu/{row.name}"
    yield "amd_products", matrix.amd_products, lambda row: f"amd-gpu/{row.name}"


def _row(name: str, table: str, record: object, matrix: Matrix) -> Row:
    data = encode(record)
    facts = {key: _text(value) for key, value in data.items() if key not in _NOT_FACTS and _text(value)}
    keys = [data[key] for key in _SOURCES if data.get(key)]
    proofs = tuple(RowSource(key, matrix.cite(key), matrix.sources[key]) for key in dict.fromkeys(keys))
    return Row(name, table, facts, proofs)


def _text(value: object) -> str:
    """Formats a value on one line: lists with spaces, records as ``key value`` pairs."""
    if value is None or value is False:
        return ""
    if isinstance(value, list):
        return " ".join(map(_text, value))
    if isinstance(value, dict):
        return "; ".join(f"{key} {_text(item)}" for key, item in value.items() if _text(item))
    return "yes" if value is True else str(value)


# Python 3.12 is the newest for which every wheel line has wheels.
MACHINE = ("os=linux", "arch=x86_64", "libc=glibc-2.36", "python=3.12")
MACHINE_TEXT = "Linux x86_64 with glibc 2.36 and Python 3.12"


class GpuColumn(NamedTuple):
    """A column of the grid: GPUs of one compute capability.

    Attributes:
        arch: aarch64 if wheels have code for these GPUs only there, else x86_64.
        products: GPUs with this capability.
    """

    generation: Generation
    capability: ComputeCapability
    arch: str
    products: tuple[Product, ...]


class NewestRelease(NamedTuple):
    """The newest release of a wheel line in one cell, and what rejects it.

    Attributes:
        source: of the release.
    """

    candidate: Candidate
    rejections: tuple[Rejection, ...]
    source: str


class Cell(NamedTuple):
    """The wheel for one driver and compute capability, and the newest release of each line.

    Attributes:
        facts: as ``--assume`` takes them.
        wheel: what ``resolve`` chooses for these facts; None if nothing fits.
        newest: one for each line, in order of preference.
    """

    facts: tuple[str, ...]
    wheel: WheelChoice | None
    newest: tuple[NewestRelease, ...]


class GridRow(NamedTuple):
    """A driver version and its cells, one for each column.

    Attributes:
        driver: the first release of the branch, or a later one from which on another wheel line fits.
    """

    branch: DriverBranch
    driver: DriverVersion
    cells: tuple[Cell, ...]

    @property
    def name(self) -> str:
        """``driver-580``, or ``driver-450.80.02`` for a later release of a branch."""
        first = self.driver in (self.branch.first, DriverVersion.parse(str(self.branch.branch)))
        return f"driver-{self.branch.branch if first else self.driver}"


class Grid(NamedTuple):
    """Drivers by GPUs, the newest first."""

    columns: tuple[GpuColumn, ...]
    rows: tuple[GridRow, ...]


def build_grid(matrix: Matrix) -> Grid:
    """Resolves every driver with every compute capability."""
    columns = tuple(sorted(_gpu_columns(matrix), key=lambda column: column.capability, reverse=True))
    machines = [
        assume(Snapshot(), (*_facts_of(column), f"compute-capability={column.capability}"), matrix)
        for column in columns
    ]
    rows = []
    for branch in sorted(matrix.driver_branches, key=lambda row: row.branch, reverse=True):
        for driver in _drivers(branch, matrix):
            fact = f"driver={driver}"
            cells = tuple(
                _cell(assume(machine, (fact,), matrix), (*_facts_of(column), fact), column.capability, matrix)
                for machine, column in zip(machines, columns, strict=True)
            )
            rows.append(GridRow(branch, driver, cells))
    return Grid(columns, tuple(rows))


def _drivers(branch: DriverBranch, matrix: Matrix) -> list[DriverVersion]:
    """Returns the first release of a branch, and the later ones that some wheel line needs; the newest first."""
    first = branch.first or DriverVersion.parse(str(branch.branch))
    needed = {oldest_driver(line, matrix) for line in matrix.wheel_lines}
    later = {driver for driver in needed if branch_of(driver, matrix) == branch.branch and driver > first}
    return sorted({first, *later}, reverse=True)


def _gpu_columns(matrix: Matrix) -> Iterator[GpuColumn]:
    """Yields the capabilities of products, without Tegra, which needs JetPack's drivers."""
    for row in matrix.generations:
        for capability in row.capabilities:
            products = tuple(entry for entry in matrix.products if entry.compute_capability == capability)
            if products and capability not in TEGRA:
                on_x86 = any(served_by(line, capability, matrix, "x86_64") for line in matrix.wheel_lines)
                on_arm = any(served_by(line, capability, matrix, "aarch64") for line in matrix.wheel_lines)
                yield GpuColumn(row, capability, "aarch64" if on_arm and not on_x86 else "x86_64", products)


def newest_release(line: WheelLine) -> Release:
    """Returns the newest release that was not yanked; the newest one if all were."""
    return max(line.releases, key=lambda release: (release.yanked is None, version_of(release.cupy)))


def served_by(line: WheelLine, capability: ComputeCapability, matrix: Matrix, arch: str) -> bool:
    """Whether the newest release of a line runs on a GPU on Linux with some driver."""
    machine = assume(Snapshot(), ("os=linux", f"arch={arch}", f"compute-capability={capability}"), matrix)
    return fits(WheelCandidate(line, newest_release(line), None), needs_of(machine, matrix), matrix)


def _facts_of(column: GpuColumn) -> tuple[str, ...]:
    return tuple(f"arch={column.arch}" if fact.startswith("arch=") else fact for fact in MACHINE)


def _cell(machine: Snapshot, facts: tuple[str, ...], capability: ComputeCapability, matrix: Matrix) -> Cell:
    needs = needs_of(machine, matrix)
    newest: dict[str, list[WheelCandidate]] = {}
    for wheel in by_preference(needs, matrix):
        candidates = newest.setdefault(wheel.line.name, [])
        if not candidates or candidates[0].release is wheel.release:
            candidates.append(wheel)
    found = tuple(_newest(candidates, needs, matrix) for candidates in newest.values())
    return Cell((*facts, f"compute-capability={capability}"), choose(machine, matrix), found)


def _newest(candidates: Sequence[WheelCandidate], needs: Needs, matrix: Matrix) -> NewestRelease:
    """Judges a release with and without its extra; the one that fits counts, else the preferred one."""
    judged = [judge(wheel, needs, matrix) for wheel in candidates]
    entry = next((entry for entry in judged if entry.fits), judged[0])
    return NewestRelease(entry.wheel.candidate, entry.rejections, entry.wheel.release.source)
