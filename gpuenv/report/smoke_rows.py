"""The results of GPU tests as rows, and what they have measured as series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuenv.model.smoke import BROKEN, Compared, Quantity, SmokeResult, TestStatus
from gpuenv.model.text import quantity_text
from gpuenv.report.report import Report


@dataclass(frozen=True, slots=True)
class SmokeRow:
    """One GPU test.

    Attributes:
        name: of the test.
        group: what it belongs to.
        gpu: UUID of the GPU; empty where it has none.
        status: how it ended.
        duration: seconds.
        detail: what it says.
        measured: what it has measured, in words: ``matmul_f16 641 TFLOP/s``.
        repeat: which repetition, from 0.
    """

    name: str
    group: str
    gpu: str
    status: TestStatus
    duration: float
    detail: str
    measured: tuple[str, ...]
    repeat: int = 0

    @property
    def label(self) -> str:
        """Its name, and from the second repetition on which it is: readers take two of one name for the same."""
        return f"{self.name} #{self.repeat + 1}" if self.repeat else self.name

    @property
    def is_broken(self) -> bool:
        """Whether the test says that something is wrong."""
        return self.status in BROKEN


@dataclass(frozen=True, slots=True)
class Series:
    """What one GPU reached of one quantity.

    Attributes:
        name: ``GROUP.QUANTITY``.
        gpu: its UUID.
        unit: of the values.
        values: one a repetition.
        beside: what they are beside other numbers.
    """

    name: str
    gpu: str
    unit: str
    values: tuple[float, ...]
    beside: tuple[Compared, ...] = ()

    @property
    def text(self) -> str:
        """``641 TFLOP/s``, or the range of several."""
        ends = dict.fromkeys((min(self.values), max(self.values)))
        return " to ".join(quantity_text(Quantity(value, self.unit)) for value in ends)


def smoke_rows(report: Report) -> tuple[SmokeRow, ...]:
    """Every test of a report; none where the GPU tests were not asked for."""
    tests = report.smoke.tests if report.smoke else ()
    return tuple(
        SmokeRow(
            name=test.name,
            group=test.group,
            gpu=test.gpu or "",
            status=test.status,
            duration=test.duration,
            detail=test.detail or "",
            measured=tuple(f"{name} {quantity_text(quantity)}" for name, quantity in test.measured.items()),
            repeat=test.repeat,
        )
        for test in tests
    )


def smoke_series(result: SmokeResult) -> tuple[Series, ...]:
    """Every number that was measured, by name and GPU, in the order of the tests."""
    found: dict[tuple[str, str], list[Quantity]] = {}
    for test in result.tests:
        for name, quantity in test.measured.items():
            found.setdefault((f"{test.group}.{name}", test.gpu or ""), []).append(quantity)
    return tuple(
        Series(name, gpu, quantities[0].unit, tuple(q.value for q in quantities), _beside(result.compared, name, gpu))
        for (name, gpu), quantities in found.items()
    )


def _beside(compared: Sequence[Compared], name: str, gpu: str) -> tuple[Compared, ...]:
    return tuple(entry for entry in compared if entry.name == name and (entry.gpu or "") == gpu)
