"""Which hosts each image of nvidia/cuda admits, as a text that people review.

``python -m tests.image.admission`` writes it anew; a test holds the written one against what the grammar answers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import wrap

from gpuenv.image.inspect.nvidia_require import HostFacts, Requirement, holds, parse
from gpuenv.matrix.strict_yaml import parse as parse_yaml
from gpuenv.matrix.tables import DriverBranch
from gpuenv.probe.gpu_assembly import BRANDS
from tests.support.matrix import MATRIX

HERE = Path(__file__).parent
FILE = HERE / "admitted.txt"


@dataclass(frozen=True)
class Row:
    """One form of NVIDIA_REQUIRE_CUDA."""

    image: str
    cuda: str
    branches: tuple[int, ...]
    brands: tuple[str, ...]

    @property
    def text(self) -> str:
        """The variable as NVIDIA writes it."""
        windows = (f"brand={brand},driver>={n},driver<{n + 1}" for n in self.branches for brand in self.brands)
        return " ".join((f"cuda>={self.cuda}", *windows))


@cache
def rows() -> tuple[Row, ...]:
    """Every form that is known."""
    value = parse_yaml((HERE / "requirements.yaml").read_text(encoding="utf-8")).value
    assert isinstance(value, list)
    return tuple(_row(entry) for entry in value)


def _row(entry: object) -> Row:
    assert isinstance(entry, dict)
    branches, brands = entry["branches"], entry["brands"]
    return Row(entry["image"], entry["cuda"], tuple(int(n) for n in branches), tuple(brands))


@cache
def branches() -> tuple[DriverBranch, ...]:
    """Every driver branch of the matrix."""
    return MATRIX.driver_branches


@cache
def admitted(row: Row, brand: str | None) -> tuple[int, ...]:
    """The driver branches on which an image starts with a GPU of a brand."""
    return tuple(entry.branch for entry in branches() if holds(_requirement(row), machine(entry, brand)))


@cache
def _requirement(row: Row) -> Requirement:
    return parse(row.text)


def machine(entry: DriverBranch, brand: str | None) -> HostFacts:
    """A host with the first release of a branch."""
    return HostFacts(str(entry.cuda), str(entry.first or f"{entry.branch}.10"), "8.0", brand)


def table() -> str:
    """The whole table: for each image, brands with the same answer in one line."""
    head = (
        "Driver branches on which an image of nvidia/cuda starts under the container toolkit's legacy mode,",
        "by the brand of the GPU as NVML tells it. Forms of one version that differ by distribution follow each other.",
    )
    return "\n".join([*head, *(line for row in rows() for line in _lines(row))]) + "\n"


def _lines(row: Row) -> Iterator[str]:
    groups: dict[tuple[int, ...], list[str]] = {}
    for brand in BRANDS:
        groups.setdefault(admitted(row, brand), []).append(brand)
    yield ""
    yield f"nvidia/cuda:{row.image}"
    for found, brands in groups.items():
        yield from wrap(", ".join(brands), 100, initial_indent="  ", subsequent_indent="  ")
        yield from wrap(" ".join(map(str, found)), 100, initial_indent="      ", subsequent_indent="      ")


if __name__ == "__main__":
    FILE.write_text(table(), encoding="utf-8")
    sys.stdout.write(f"{FILE}: {len(rows())} forms, {len(branches())} driver branches, {len(BRANDS)} brands\n")
