"""Overview of the matrix: wheel lines, and the newest CUDA minor versions and driver branches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from gpuenv.matrix.candidates import TEGRA
from gpuenv.matrix.constraints import oldest_driver
from gpuenv.matrix.grid import newest_release, served_by
from gpuenv.matrix.tables import BranchState, DriverBranch, Matrix, Release, WheelLine
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion

_NEWEST = 4  # CUDA minor versions and driver branches


class LineSummary(NamedTuple):
    """A wheel line.

    Attributes:
        cuda: the first and the last CUDA minor version that it supports.
        newest: its newest release that was not yanked.
        python: the newest Python of that release.
        linux, windows: the oldest driver.
        capabilities: those of the GPUs on which that release runs.
    """

    line: WheelLine
    cuda: tuple[CudaVersion, CudaVersion]
    newest: Release
    python: str
    linux: DriverVersion
    windows: DriverVersion
    capabilities: tuple[ComputeCapability, ...]

    @property
    def cuda_text(self) -> str:
        """``12.0-12.9``."""
        first, last = self.cuda
        return str(first) if first == last else f"{first}-{last}"


def summarize_lines(matrix: Matrix) -> tuple[LineSummary, ...]:
    """Returns every wheel line, the newest CUDA first."""
    lines = sorted(matrix.wheel_lines, key=lambda line: line.first_cuda, reverse=True)
    return tuple(_summary(line, matrix) for line in lines if line.releases)


def _summary(line: WheelLine, matrix: Matrix) -> LineSummary:
    newest = newest_release(line)
    supported = [row.cuda for row in matrix.cuda_minors if line.serves(row.cuda)] or [line.first_cuda]
    minors = [int(tag[3:]) for tag in newest.pythons if tag[3:].isdigit()]
    return LineSummary(
        line,
        (min(supported), max(supported)),
        newest,
        f"3.{max(minors)}" if minors else "-",
        oldest_driver(line, matrix),
        oldest_driver(line, matrix, windows=True),
        tuple(
            capability
            for capability in capabilities_of_products(matrix)
            if any(served_by(line, capability, matrix, arch) for arch in ("x86_64", "aarch64"))
        ),
    )


def capabilities_of_products(matrix: Matrix) -> list[ComputeCapability]:
    """Returns the compute capabilities of GPU products, without Tegra."""
    return sorted({product.compute_capability for product in matrix.products} - TEGRA)


class Table(NamedTuple):
    """A table of texts."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def overview_tables(matrix: Matrix) -> Iterator[Table]:
    """Yields the wheel lines, the newest CUDA minor versions and the newest driver branches."""
    sold = capabilities_of_products(matrix)
    yield Table(
        "Wheel lines",
        ("line", "CUDA", "CuPy", "Linux", "Windows", "Python", "GPUs"),
        tuple(
            (
                entry.line.name,
                entry.cuda_text,
                entry.newest.cupy,
                str(entry.linux),
                str(entry.windows),
                entry.python,
                spans(entry.capabilities, sold),
            )
            for entry in summarize_lines(matrix)
        ),
        "Linux, Windows: oldest driver. Python: newest. GPUs: compute capabilities.",
    )
    minors = sorted(matrix.cuda_minors, key=lambda row: row.cuda, reverse=True)
    newest_of_majors = {row.cuda.major: row for row in reversed(minors)}.values()
    shown = [row for row in minors if row in minors[:_NEWEST] or row in newest_of_majors]
    yield Table(
        "CUDA minor versions: the newest, and the last of each major",
        ("CUDA", "released with driver", "its NVRTC compiles for"),
        tuple((str(row.cuda), str(row.linux or "-"), spans(row.capabilities, sold)) for row in shown),
        f"{len(minors)} in all, back to {minors[-1].cuda}." if minors else "",
    )
    branches = sorted(matrix.driver_branches, key=lambda row: row.branch, reverse=True)
    supported = [row for row in branches if row.state not in (None, BranchState.ENDED)]
    recent = [row for row in branches if row in branches[:_NEWEST] or row in supported]
    yield Table(
        "Driver branches: the newest, and those that NVIDIA supports",
        ("branch", "CUDA", "first release", "support"),
        tuple((str(row.branch), str(row.cuda), str(row.first or "-"), support_text(row) or "-") for row in recent),
        f"{len(branches)} in all, back to {branches[-1].branch}." if branches else "",
    )


def support_text(row: DriverBranch) -> str:
    """Returns ``long-term until 2028-06``; empty if undocumented."""
    if row.state is None:
        return ""
    until = f" {'in' if row.state is BranchState.ENDED else 'until'} {row.until}" if row.until else ""
    return f"{row.state.value}{until}"


def spans(found: Collection[ComputeCapability], known: Sequence[ComputeCapability]) -> str:
    """Returns ``5.0-10.3 12.0-12.1``: ranges without gaps among the known compute capabilities."""
    ranges = []
    for is_found, group in groupby(known, key=lambda capability: capability in found):
        span = list(group)
        if is_found:
            ranges.append(str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}")
    return " ".join(ranges) or "none"
