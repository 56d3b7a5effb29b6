"""What tests there are, read from the constants of their files; nothing of the payload is imported here."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gpuenv.model.smoke import Level

PAYLOAD = Path(__file__).parent / "payload"
GROUPS = (
    "kernels", "blas", "fft", "solver", "sparse", "random", "streams", "memory", "transfer", "dtype", "interop",
    "multi", "health",
)  # fmt: skip

Size = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class TestInfo:
    """A test as its file describes it.

    Attributes:
        name: ``blas.matmul_f32``.
        group: ``blas``.
        title: what it proves.
        sizes: level -> sizes, for the levels that have an entry of their own.
        needs: what must be there.
        tolerance: how far the GPU may be off, and why.
        alone: the levels in which it runs alone, since it takes times, or watches or fills the memory.
        seconds: level -> deadline, where the level's own is too short.
    """

    __test__ = False  # no test of pytest's

    name: str
    group: str
    title: str
    sizes: Mapping[str, Size]
    needs: tuple[str, ...]
    tolerance: str
    alone: tuple[str, ...]
    seconds: Mapping[str, float]

    @property
    def gpus(self) -> int:
        """How many GPUs it needs."""
        return max([1, *(int(need.partition(":")[2]) for need in self.needs if need.startswith("gpus:"))])

    @property
    def longest(self) -> float:
        """Seconds of the longest deadline of its own; 0 where each level's is long enough."""
        return max(self.seconds.values(), default=0.0)

    def size(self, level: Level) -> Size | None:
        """The sizes for a level: its own, else those of the nearest lower one; None where there is none."""
        order = list(Level)
        known = [self.sizes[entry.value] for entry in order[: order.index(level) + 1] if entry.value in self.sizes]
        return known[-1] if known else None


@cache
def all_tests() -> tuple[TestInfo, ...]:
    """Every test, group by group, then by name."""
    found = [_read(path) for path in (PAYLOAD / "tests").glob("*_*.py") if not path.name.startswith("__")]
    return tuple(sorted(found, key=lambda test: (GROUPS.index(test.group), test.name)))


def chosen(groups: Sequence[str], only: Sequence[str], level: Level) -> tuple[TestInfo, ...]:
    """The tests of some groups, or of all, that a level has; ``only`` names tests, whatever their level."""
    named = [test for test in all_tests() if test.name in only]
    if only:
        return tuple(named)
    return tuple(test for test in all_tests() if (not groups or test.group in groups) and test.size(level) is not None)


def _read(path: Path) -> TestInfo:
    constants = dict(_constants(path, "TITLE", "LEVELS", "NEEDS", "TOLERANCE", "ALONE", "SECONDS"))
    group, _, name = path.stem.partition("_")
    return TestInfo(
        name=f"{group}.{name}",
        group=group,
        title=str(constants["TITLE"]),
        sizes=constants["LEVELS"],
        needs=tuple(constants.get("NEEDS", ())),
        tolerance=str(constants["TOLERANCE"]),
        alone=tuple(constants.get("ALONE", ())),
        seconds=constants.get("SECONDS", {}),
    )


def _constants(path: Path, *names: str) -> Iterator[tuple[str, Any]]:
    """The literals with these names at the top of a file."""
    for node in ast.parse(path.read_text(encoding="utf-8"), str(path)).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in names:
            yield node.targets[0].id, ast.literal_eval(node.value)


FAULTS: Mapping[str, str] = dict(_constants(PAYLOAD / "faults.py", "FAULTS"))["FAULTS"]
"""The faults that can be planted into a test, and what each does."""
