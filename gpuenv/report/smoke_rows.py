"""The results of GPU tests as rows, whatever a test has measured. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpuenv.model.codec import encode
from gpuenv.report.report import Report

BAD = ("failed", "timed-out", "crashed")


@dataclass(frozen=True, slots=True)
class Measured:
    """Something a test has measured: a value in words, or a series of numbers, which can be drawn."""

    name: str
    text: str
    series: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class SmokeRow:
    """One GPU test.

    Attributes:
        name: of the test.
        group: what it belongs to.
        gpu: UUID of the GPU; empty where it has none.
        status: ``passed``, ``failed``, ``skipped``, ``timed-out``, ``crashed`` or ``busy``.
        duration: seconds.
        detail: what it says.
        measured: what it has measured.
    """

    name: str
    group: str
    gpu: str
    status: str
    duration: float
    detail: str
    measured: tuple[Measured, ...]


def smoke_rows(report: Report) -> tuple[SmokeRow, ...]:
    """Every test of a report; none where the GPU tests were not asked for."""
    data = encode(report.smoke)
    tests = data.get("tests", []) if isinstance(data, dict) else []
    return tuple(_row(entry) for entry in tests if isinstance(entry, dict))


def _row(entry: dict[str, Any]) -> SmokeRow:
    duration = entry.get("duration")
    return SmokeRow(
        name=_text(entry.get("name")),
        group=_text(entry.get("group")),
        gpu=_text(entry.get("gpu")),
        status=_text(entry.get("status")),
        duration=float(duration) if isinstance(duration, int | float) else 0.0,
        detail=_text(entry.get("detail")),
        measured=tuple(_measured(entry.get("measured"))),
    )


def _measured(value: Any) -> Iterator[Measured]:  # noqa: ANN401 - JSON
    """A mapping of names to values, or a list of objects with a name and a value."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield _one(str(name), item, "")
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                yield _one(_text(item.get("name")), item.get("value"), _text(item.get("unit")))


def _one(name: str, value: Any, unit: str) -> Measured:  # noqa: ANN401 - JSON
    if isinstance(value, list) and len(value) > 1 and all(_is_number(item) for item in value):
        series = tuple(float(item) for item in value)
        return Measured(name, f"{min(series):g} to {max(series):g} {unit}".rstrip(), series)
    if isinstance(value, dict):
        return Measured(name, ", ".join(f"{key} {_text(item)}" for key, item in value.items()))
    return Measured(name, f"{_text(value)} {unit}".rstrip())


def _is_number(value: Any) -> bool:  # noqa: ANN401 - JSON
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:  # noqa: ANN401 - JSON
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)
