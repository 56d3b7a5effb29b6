"""Snapshots as text: facts, timings and the comparison of two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuenv.model.codec import encode
from gpuenv.model.documents import Comparison, SnapshotDifference
from gpuenv.model.snapshot import Snapshot, SourceState
from gpuenv.model.strings import format_value
from gpuenv.report.lines import Line, Style, counted
from gpuenv.report.text import command_text

_READING = {"value", "source", "others", "reason"}


def fact_lines(snapshot: Snapshot) -> Iterator[Line]:
    """One line a fact, under the path that it has in JSON."""
    for name, value in encode(snapshot).items():
        yield from _lines(name, value)


def _lines(path: str, value: Any) -> Iterator[Line]:  # noqa: ANN401 - JSON
    if isinstance(value, dict) and set(value) == _READING:
        yield _reading(path, value)
        yield from _lines(path, [entry for entry in _entries(value["value"]) if isinstance(entry, dict)])
    elif isinstance(value, dict):
        for name, entry in value.items():
            yield from _lines(f"{path}.{name}", entry)
    elif isinstance(value, list) and value and all(isinstance(entry, str) for entry in value):
        yield Line(f"{path}: {_spelt(value)}", hang=2)
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            yield from _lines(f"{path}[{number}]", entry)
    elif value not in (None, ""):
        yield Line(f"{path}: {_spelt(value)}", hang=2)


def _entries(value: Any) -> list[Any]:  # noqa: ANN401 - JSON
    return value if isinstance(value, list) else []


def _spelt(value: Any) -> str:  # noqa: ANN401 - JSON
    """A list as its entries, or as their number where each is told on lines of its own."""
    records = sum(isinstance(entry, dict) for entry in _entries(value))
    return f"{records} lines" if records else format_value(value)


def _reading(path: str, reading: dict[str, Any]) -> Line:
    if reading["value"] is None:
        return Line(f"{path}: unknown ({reading['reason'] or 'not asked'})", Style.QUIET, 2)
    differing = [answer for answer in reading["others"] if answer["value"] != reading["value"]]
    others = "; but " + ", ".join(f"{_spelt(a['value'])} [{a['source']}]" for a in differing) if differing else ""
    return Line(
        f"{path}: {_spelt(reading['value'])} [{reading['source']}]{others}",
        Style.WARNING if differing else Style.PLAIN,
        2,
    )


_WIDTH = 30  # columns of the drawing


def phase_lines(snapshot: Snapshot) -> Iterator[Line]:
    """A table with the seconds from and to which each source was asked, and a drawing of it."""
    asked = sorted(
        (source for source in snapshot.sources if source.duration > 0), key=lambda source: (source.started, source.name)
    )
    if not asked:
        yield Line("No source was asked.", Style.QUIET)
        return
    whole = max(source.started + source.duration for source in asked)
    name_width = max(len(source.name) for source in asked)
    yield Line(f"{'source':{name_width}}   from     to   took  state", Style.QUIET)
    for source in asked:
        end = source.started + source.duration
        before, after = round(source.started / whole * _WIDTH), round(end / whole * _WIDTH)
        bar = " " * before + "#" * max(1, after - before)
        state = "" if source.state is SourceState.ANSWERED else source.state.value
        yield Line(
            f"{source.name:{name_width}} {source.started:6.2f} {end:6.2f} {source.duration:6.2f}  "
            f"{bar:{_WIDTH}} {state}".rstrip()
        )
    told_apart = sum(source.duration for source in asked)
    yield Line(f"all {whole:.2f} s; one after the other it would be {told_apart:.2f} s", Style.QUIET)


_SHOWN = 12


def difference_lines(comparison: Comparison, *, verbose: bool = False) -> Iterator[Line]:
    """What to try first, what the doctor finds here alone, and the differences, the likeliest first."""
    if not comparison.differences:
        yield Line(f"No difference in the {counted(comparison.compared, 'fact')} that both machines told.", Style.GOOD)
        return
    count = len(comparison.differences)
    yield Line(f"{counted(count, 'difference')}; {counted(comparison.compared, 'fact')} told by both", Style.HEADING)
    if comparison.try_first:
        yield Line()
        yield Line("Try this first", Style.HEADING)
        for step in comparison.try_first:
            yield Line(f"  {step.text}", hang=2)
            if step.command:
                yield Line(f"  $ {command_text(step.command)}", Style.COMMAND, 4)
    if comparison.findings:
        yield Line()
        yield Line("Found here and not there", Style.HEADING)
        for finding in comparison.findings:
            yield Line(f"  {finding.code} {finding.cause.value}: {finding.title}", hang=4)
    yield Line()
    yield Line("Differences, the likeliest explanation first", Style.HEADING)
    shown = comparison.differences if verbose else comparison.differences[:_SHOWN]
    for difference in shown:
        yield from _one(difference)
    if len(shown) < count:
        yield Line(f"  and {count - len(shown)} less likely ones: -v shows them", Style.QUIET)


def _one(difference: SnapshotDifference) -> Iterator[Line]:
    yield Line(f"  {difference.fact}: {difference.why}", hang=4)
    there, here = difference.shown
    yield Line(f"    there: {there}", Style.QUIET, 11)
    yield Line(f"    here:  {here}", Style.QUIET, 11)
