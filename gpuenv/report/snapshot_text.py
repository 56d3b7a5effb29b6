"""Snapshots as text: facts, timings of the probes, and the comparison of two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuenv.model.codec import encode
from gpuenv.model.documents import Comparison, SnapshotDifference
from gpuenv.model.snapshot import Snapshot, SourceState
from gpuenv.model.strings import format_value
from gpuenv.report.text import fix_command
from gpuenv.report.text_line import Style, TextLine, counted

_READING = {"value", "source", "others", "reason"}


def fact_lines(snapshot: Snapshot) -> Iterator[TextLine]:
    """One line per fact, with its JSON path."""
    for name, value in encode(snapshot).items():
        yield from _lines(name, value)


def _lines(path: str, value: Any) -> Iterator[TextLine]:  # noqa: ANN401 - JSON
    if isinstance(value, dict) and set(value) == _READING:
        yield _reading(path, value)
        yield from _lines(path, [entry for entry in _entries(value["value"]) if isinstance(entry, dict)])
    elif isinstance(value, dict):
        for name, entry in value.items():
            yield from _lines(f"{path}.{name}", entry)
    elif isinstance(value, list) and value and all(isinstance(entry, str) for entry in value):
        yield TextLine(f"{path}: {_spelt(value)}", hang=2)
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            yield from _lines(f"{path}[{number}]", entry)
    elif value not in (None, ""):
        yield TextLine(f"{path}: {_spelt(value)}", hang=2)


def _entries(value: Any) -> list[Any]:  # noqa: ANN401 - JSON
    return value if isinstance(value, list) else []


def _spelt(value: Any) -> str:  # noqa: ANN401 - JSON
    """A value as text; of a list of records, which get lines of their own, only the number."""
    records = sum(isinstance(entry, dict) for entry in _entries(value))
    return f"{records} lines" if records else format_value(value)


def _reading(path: str, reading: dict[str, Any]) -> TextLine:
    if reading["value"] is None:
        return TextLine(f"{path}: unknown ({reading['reason'] or 'not probed'})", Style.QUIET, 2)
    differing = [answer for answer in reading["others"] if answer["value"] != reading["value"]]
    others = "; but " + ", ".join(f"{_spelt(a['value'])} [{a['source']}]" for a in differing) if differing else ""
    return TextLine(
        f"{path}: {_spelt(reading['value'])} [{reading['source']}]{others}",
        Style.WARNING if differing else Style.PLAIN,
        2,
    )


_WIDTH = 30  # columns of the chart


def phase_lines(snapshot: Snapshot) -> Iterator[TextLine]:
    """A table and a chart of the time spans, in seconds, in which each source was probed."""
    sources = sorted(
        (source for source in snapshot.sources if source.duration > 0), key=lambda source: (source.started, source.name)
    )
    if not sources:
        yield TextLine("No source was probed.", Style.QUIET)
        return
    total = max(source.started + source.duration for source in sources)
    name_width = max(len(source.name) for source in sources)
    yield TextLine(f"{'source':{name_width}}   from     to   took  state", Style.QUIET)
    for source in sources:
        end = source.started + source.duration
        first, last = round(source.started / total * _WIDTH), round(end / total * _WIDTH)
        bar = " " * first + "#" * max(1, last - first)
        state = "" if source.state is SourceState.ANSWERED else source.state.value
        yield TextLine(
            f"{source.name:{name_width}} {source.started:6.2f} {end:6.2f} {source.duration:6.2f}  "
            f"{bar:{_WIDTH}} {state}".rstrip()
        )
    sequential = sum(source.duration for source in sources)
    yield TextLine(f"total {total:.2f} s; one after the other {sequential:.2f} s", Style.QUIET)


_MAX_SHOWN = 12


def difference_lines(comparison: Comparison, *, verbose: bool = False) -> Iterator[TextLine]:
    """What to try first, findings on this machine only, and the differences, the likeliest explanation first."""
    if not comparison.differences:
        yield TextLine(f"No difference in {counted(comparison.compared, 'fact')} known for both machines.", Style.GOOD)
        return
    count = len(comparison.differences)
    summary = f"{counted(count, 'difference')}; {counted(comparison.compared, 'fact')} known for both machines"
    yield TextLine(summary, Style.HEADING)
    if comparison.try_first:
        yield TextLine()
        yield TextLine("Try this first", Style.HEADING)
        for step in comparison.try_first:
            yield TextLine(f"  {step.text}", hang=2)
            if line := fix_command(step):
                yield TextLine(f"  $ {line}", Style.COMMAND, 4)
    if comparison.findings:
        yield TextLine()
        yield TextLine("Found here only", Style.HEADING)
        for finding in comparison.findings:
            yield TextLine(f"  {finding.code} {finding.cause.value}: {finding.title}", hang=4)
    yield TextLine()
    yield TextLine("Differences, the likeliest explanation first", Style.HEADING)
    shown = comparison.differences if verbose else comparison.differences[:_MAX_SHOWN]
    for difference in shown:
        yield from _difference_lines(difference)
    if len(shown) < count:
        yield TextLine(f"  and {count - len(shown)} less likely ones (-v lists them)", Style.QUIET)


def _difference_lines(difference: SnapshotDifference) -> Iterator[TextLine]:
    yield TextLine(f"  {difference.fact}: {difference.why}", hang=4)
    there, here = difference.shown
    yield TextLine(f"    there: {there}", Style.QUIET, 11)
    yield TextLine(f"    here:  {here}", Style.QUIET, 11)
