"""The driver branches on which images of nvidia/cuda start, by the brand of the GPU."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpuenv.image.inspect.nvidia_require import HostFacts, Requirement, holds, parse
from gpuenv.matrix.strict_yaml import parse as parse_yaml
from gpuenv.matrix.tables import DriverBranch
from tests.support.matrix import MATRIX

HERE = Path(__file__).parent


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
