"""Lookup of matrix rows with their facts and sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpuenv.matrix.constraints import runs
from gpuenv.matrix.products import branch_of, find_gpu
from gpuenv.matrix.tables import (
    SOURCE_KEYS,
    AmdProduct,
    CudaMajor,
    DriverBranch,
    Generation,
    Image,
    Matrix,
    MatrixSource,
    Product,
)
from gpuenv.model.codec import encode
from gpuenv.model.versions import DriverVersion

SCHEMA = "gpuenv.matrix-rows/1"
_NOT_FACTS = (*SOURCE_KEYS, "releases")


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

    def passes(record: object, _: Row) -> bool:
        if isinstance(record, DriverBranch):
            return record.branch == branch
        if isinstance(record, CudaMajor):
            return driver >= record.linux
        if isinstance(record, Generation):
            first, last = record.first_branch, record.last_branch
            return (first is None or first <= branch) and (last is None or branch <= last)
        # An image starts on a driver of its CUDA level, or of a branch that it lists.
        return isinstance(record, Image) and (level >= record.cuda or branch in record.branches)

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
    keys = [data[key] for key in SOURCE_KEYS if data.get(key)]
    sources = tuple(RowSource(key, matrix.cite(key), matrix.sources[key]) for key in dict.fromkeys(keys))
    return Row(name, table, facts, sources)


def _text(value: object) -> str:
    """Formats a value on one line: lists with spaces, records as ``key value`` pairs."""
    if value is None or value is False:
        return ""
    if isinstance(value, list):
        return " ".join(map(_text, value))
    if isinstance(value, dict):
        return "; ".join(f"{key} {_text(item)}" for key, item in value.items() if _text(item))
    return "yes" if value is True else str(value)
