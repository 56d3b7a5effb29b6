"""What fits each driver branch and each kind of GPU: the table that the page draws. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuenv.matrix.assume import assume
from gpuenv.matrix.candidates import TEGRA
from gpuenv.matrix.explanation import changes_text
from gpuenv.matrix.records import DriverBranch, Matrix
from gpuenv.matrix.resolve import resolve
from gpuenv.model.resolution import Rejection, Resolution
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.versions import ComputeCapability

MACHINE = ("os=linux", "arch=x86_64", "libc=glibc-2.36", "python=3.13")
MACHINE_TEXT = "Linux x86_64 with glibc 2.36 and Python 3.13"


@dataclass(frozen=True, slots=True)
class Kind:
    """A column: GPUs of one compute capability."""

    generation: str
    capability: ComputeCapability


@dataclass(frozen=True, slots=True)
class Cell:
    """What fits one branch and one kind of GPU, and why."""

    line: str | None
    requirements: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Grid:
    """The table: a row a driver branch, newest first; a cell a kind of GPU."""

    kinds: tuple[Kind, ...]
    rows: tuple[tuple[DriverBranch, tuple[Cell, ...]], ...]


def grid_of(matrix: Matrix) -> Grid:
    """Every cell of the table."""
    kinds = tuple(sorted(_kinds(matrix), key=lambda kind: kind.capability))
    branches = sorted(matrix.driver_branches, key=lambda row: row.branch, reverse=True)
    base = assume(Snapshot(), MACHINE, matrix)
    rows = []
    for branch in branches:
        with_driver = assume(base, (f"driver={branch.branch}",), matrix)
        rows.append((branch, tuple(_cell(with_driver, kind, matrix) for kind in kinds)))
    return Grid(kinds, tuple(rows))


def _kinds(matrix: Matrix) -> Iterator[Kind]:
    """The capabilities that some product has, each with its generation; Tegra's are for JetPack's drivers alone."""
    sold = {row.compute_capability for row in matrix.products}
    for row in matrix.generations:
        for capability in row.capabilities:
            if capability in sold and capability not in TEGRA:
                yield Kind(row.name, capability)


def _cell(machine: Snapshot, kind: Kind, matrix: Matrix) -> Cell:
    resolution = resolve(assume(machine, (f"compute-capability={kind.capability}",), matrix), matrix, wheels_only=True)
    wheel, reason = resolution.wheel, " ".join(_reason(resolution))
    return Cell(wheel.distribution, wheel.requirements, reason) if wheel else Cell(None, (), reason)


def _reason(resolution: Resolution) -> Iterator[str]:
    """What fits; else what stands against the newest release of each line; and what would be better."""
    if resolution.wheel is not None:
        yield f"{' '.join(resolution.wheel.requirements)} fits."
    for rejection in _newest_of_each_line(resolution):
        yield f"{rejection.candidate.name} needs {rejection.needed}, found {rejection.found}."
    if resolution.next_better is not None:
        better = resolution.next_better
        yield f"{better.candidate.label} would fit with {changes_text(better)}."


def _newest_of_each_line(resolution: Resolution) -> Iterator[Rejection]:
    seen = {resolution.wheel.distribution} if resolution.wheel else set()
    for entry in resolution.rejected:
        if entry.candidate.name.startswith("cupy-") and entry.candidate.name not in seen:
            seen.add(entry.candidate.name)
            yield entry
