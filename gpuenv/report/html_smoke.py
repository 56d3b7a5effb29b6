"""The GPU tests on the page: what passed, what was measured, and how that is beside other numbers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from gpuenv.model.quantities import quantity_text, share_text
from gpuenv.model.smoke import Quantity, SmokeResult, TestStatus
from gpuenv.report.html_parts import badge, escaped, mono, section, table
from gpuenv.report.html_plot import Bar, bars, fractions, sparkline
from gpuenv.report.report import Report
from gpuenv.report.smoke import counts_text
from gpuenv.report.smoke_rows import Series, SmokeRow, smoke_rows, smoke_series

_TONES = {TestStatus.PASSED: "good", TestStatus.BUSY: "warn", TestStatus.SKIPPED: "warn"}
_RATES = {"FLOP/s": "Arithmetic", "B/s": "Copies", "s": "Latencies"}
_BESIDE = {"data-sheet": "of the data sheet", "sisters": "of its sisters", "baseline": "of the baseline"}
_DIGITS = 12  # of a UUID, which tell GPUs apart


def smoke_section(report: Report) -> Iterator[str]:
    """The section; nothing where the GPU tests were not asked for."""
    if report.smoke is None:
        return
    rows, series = smoke_rows(report), smoke_series(report.smoke)
    body = [
        f"<p>{escaped(_sentence(report.smoke))}</p>",
        *_measured(series),
        *table(("", "test", "GPU", "took", "detail"), [_cells(row) for row in rows]),
        bars(
            [Bar(row.label, row.duration, f"{row.duration:.2f} s") for row in rows], "seconds that each GPU test took"
        ),
    ]
    yield from section("smoke", "GPU tests", body)


def _sentence(result: SmokeResult) -> str:
    return f"{counts_text(result)}; level {result.level.value}, seed {result.seed}, {result.duration:.1f} s"


def _cells(row: SmokeRow) -> tuple[str, ...]:
    tone = _TONES.get(row.status, "bad")
    return (
        badge(row.status.value, tone),
        mono(row.label),
        escaped(row.gpu),
        f"{row.duration:.2f} s",
        escaped(row.detail),
    )


def _measured(series: Sequence[Series]) -> Iterator[str]:
    """Numbers of one unit in one drawing, and what they are of a data sheet, of sisters and of a baseline."""
    several = len({entry.gpu for entry in series}) > 1
    for unit, title in _RATES.items():
        same = [entry for entry in series if entry.unit == unit]
        if same:
            yield f"<h3>{escaped(title)}</h3>"
            yield bars([_bar(entry, several=several) for entry in same], f"{title}, in {unit}")
    parts = [
        Bar(
            _name(entry, several=several),
            told.ratio,
            f"{share_text(told.ratio)} {_BESIDE[told.against]}",
            told.worse,
        )
        for entry in series
        for told in entry.beside
    ]
    if parts:
        yield "<h3>Beside other numbers</h3>"
        yield fractions(parts, "what was measured, as a part of other numbers")
    rest = [entry for entry in series if entry.unit not in _RATES or len(entry.values) > 1]
    if rest:
        cells = [(mono(_name(entry, several=several)), escaped(entry.text), _line(entry)) for entry in rest]
        yield from table(("measured", "", "repetitions"), cells)


def _bar(entry: Series, *, several: bool) -> Bar:
    value = median(entry.values)
    worse = any(told.worse for told in entry.beside)
    return Bar(_name(entry, several=several), value, quantity_text(Quantity(value, entry.unit)), worse)


def _name(entry: Series, *, several: bool) -> str:
    return f"{entry.name} {entry.gpu[:_DIGITS]}" if several and entry.gpu else entry.name


def _line(entry: Series) -> str:
    return sparkline(entry.values, entry.name)
