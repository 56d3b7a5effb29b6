"""Snapshots as text: facts, timings of the probes, and the comparison of two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gpuenv.model.codec import encode
from gpuenv.model.documents import ComparedFinding, Comparison, SnapshotDifference
from gpuenv.model.finding import Severity
from gpuenv.model.snapshot import Snapshot, SourceState
from gpuenv.model.strings import format_value
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


_MAX_SHOWN, _MAX_BELONGING = 12, 4
_ABSENT = "absent"


def difference_lines(comparison: Comparison, *, verbose: bool = False) -> Iterator[TextLine]:
    """What explains the failure and its fix, the other findings, and the other differences, the likeliest first."""
    from gpuenv.report.text import fix_lines  # noqa: PLC0415 - imports the doctor, which no list of facts needs

    known = f"{counted(comparison.compared, 'fact')} known for both machines"
    explanation, differences = comparison.explanation, comparison.differences
    if explanation:
        is_error = explanation.severity is Severity.ERROR
        yield TextLine("The likeliest explanation" if is_error else "A possible explanation", Style.HEADING)
        yield from _finding_lines([explanation], differences, verbose=verbose)
        yield from fix_lines(comparison.try_first)
    elif differences:
        yield TextLine("The doctor finds no error or warning here that it does not find there.", Style.HEADING)
        yield from fix_lines(comparison.try_first)
    else:
        yield TextLine(f"No difference in {known}.", Style.GOOD)
    for heading, findings in (
        ("Also found here only", [finding for finding in comparison.findings if finding != explanation]),
        ("Found there only", comparison.findings_there),
        ("Found on both machines, so that it explains no difference", comparison.findings_on_both),
    ):
        if findings:
            yield TextLine()
            yield TextLine(heading, Style.HEADING)
            yield from _finding_lines(findings, differences, verbose=verbose)
    if not explanation and any(finding.severity is Severity.ERROR for finding in comparison.findings_there):
        yield TextLine("  If that machine is the one that fails, exchange the two: gpuenv diff B A.", hang=2)
    others = [entry for entry in differences if entry.finding is None]
    if others:
        yield TextLine()
        yield TextLine("Other differences" if explanation else "Differences", Style.HEADING)
        yield from _difference_lines(others, None if verbose else _MAX_SHOWN)
    if differences or explanation:
        yield TextLine()
        count = counted(len(differences), "difference") if differences else "no difference"
        yield TextLine(f"{known}; {count}.", Style.QUIET)


def _finding_lines(
    findings: Iterable[ComparedFinding], differences: Iterable[SnapshotDifference], *, verbose: bool
) -> Iterator[TextLine]:
    for finding in findings:
        yield TextLine(f"  {finding.code} {finding.cause.value}: {finding.title}", hang=4)
        belonging = [entry for entry in differences if entry.finding == finding.code]
        yield from _difference_lines(belonging, None if verbose else _MAX_BELONGING)


def _difference_lines(differences: Sequence[SnapshotDifference], most: int | None) -> Iterator[TextLine]:
    for difference in differences[:most]:
        yield TextLine(f"  {difference.fact}: {difference.why}", hang=4)
        yield TextLine(f"    there: {difference.there or _ABSENT}", Style.QUIET, 11)
        yield TextLine(f"    here:  {difference.here or _ABSENT}", Style.QUIET, 11)
    if most is not None and len(differences) > most:
        yield TextLine(f"  and {len(differences) - most} more (-v lists them)", Style.QUIET)
