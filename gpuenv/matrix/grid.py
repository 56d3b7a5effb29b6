"""The grid of drivers and GPUs: the wheel for each pair, and what rejects the newest release of each line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuenv.matrix.assume import assume
from gpuenv.matrix.candidates import TEGRA, WheelCandidate, by_preference
from gpuenv.matrix.constraints import fits, oldest_driver
from gpuenv.matrix.needs import Needs, needs_of
from gpuenv.matrix.products import branch_of
from gpuenv.matrix.ranges import version_of
from gpuenv.matrix.resolve import choose, judge
from gpuenv.matrix.tables import DriverBranch, Generation, Matrix, Product, Release, WheelLine
from gpuenv.model.resolution import Candidate, Rejection, WheelChoice
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.versions import ComputeCapability, DriverVersion

# Python 3.12 is the newest for which every wheel line has wheels.
MACHINE = ("os=linux", "arch=x86_64", "libc=glibc-2.36", "python=3.12")
MACHINE_TEXT = "Linux x86_64 with glibc 2.36 and Python 3.12"


class GpuColumn(NamedTuple):
    """A column of the grid: GPUs of one compute capability.

    Attributes:
        arch: aarch64 if wheels have code for these GPUs only there, else x86_64.
    """

    generation: Generation
    capability: ComputeCapability
    arch: str
    products: tuple[Product, ...]


class NewestRelease(NamedTuple):
    """The newest release of a wheel line in one cell, its source, and what rejects it."""

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
