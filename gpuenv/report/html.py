"""A report as a self-contained HTML page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from gpuenv import __version__
from gpuenv.model.finding import Finding, RequirementResult, RequirementStatus, Severity
from gpuenv.model.resolution import Rejection, Resolution
from gpuenv.model.smoke import Quantity, TestStatus
from gpuenv.model.strings import format_quantity, format_share
from gpuenv.report.findings import suppression_text
from gpuenv.report.html_page import badge, code, escaped, page, section, table
from gpuenv.report.job import host_text
from gpuenv.report.report import SCHEMA, Report, Status, inconclusive_checks, verdict
from gpuenv.report.smoke_text import Series, counts_text, smoke_series, test_label
from gpuenv.report.svg_charts import ChartBar, bars, sparkline, timeline
from gpuenv.report.text import assumption_texts, command_text, evidence_text, fix_command, report_rows

_TONES = {Status.FIT: "good", Status.DEGRADED: "warn", Status.UNKNOWN: "warn", Status.UNFIT: "bad"}
_SEVERITIES = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.NOTE: "note"}
_REQUIRED = {
    RequirementStatus.MET: ("met", "good"),
    RequirementStatus.VIOLATED: ("not met", "bad"),
    RequirementStatus.UNKNOWN: ("unknown", "warn"),
}


def html_text(report: Report, history: Sequence[EarlierRun] = ()) -> str:
    """The page; ``report`` must be sanitized."""
    status, sentence = verdict(report)
    rows = (
        f'<dt>{escaped(row.label)}</dt><dd class="{row.style.value}">{escaped(row.text)}</dd>'
        for row in report_rows(report)
    )
    machine = host_text(report.host_name, report.jobs)
    runs = [(code(run.code), escaped(run.status.value), escaped(run.reason or "")) for run in report.checks]
    checks = table(("check", "status", "reason"), runs)
    body = [
        *_header(report, machine, status, sentence),
        *section("machine", "Machine", ["<dl>", *rows, "</dl>"]),
        *_requirements(report.requirements),
        *_findings(report),
        *(() if report.host_only else _wheel(report.resolution)),
        *smoke_section(report),
        *_history(history),
        *section("checks", "Checks", [f"<details><summary>{len(runs)} checks</summary>", *checks, "</details>"]),
    ]
    title = ": ".join(filter(None, (machine, status)))
    return page(title, body, report.matrix_revision, skip=("findings", "To the findings"))


def _header(report: Report, machine: str, status: str, sentence: str) -> Iterator[str]:
    about = f"gpuenv {__version__}{' on ' if machine else ''}{machine}"
    yield f'<header class="{_TONES[report.status]}"><p class="quiet">{escaped(about)}</p>'
    yield f"<h1>{escaped(status)}</h1><p>{escaped(sentence)}</p>"
    if report.retry_elsewhere:
        yield f"<p>Try another host: {escaped(report.retry_elsewhere)}.</p>"
    time = f"{escaped(report.snapshot.taken_at)}, " if report.snapshot.taken_at else ""
    yield f'<p class="quiet">{time}exit code {report.exit_code}, {report.duration:.1f} s</p></header>'


def _requirements(requirements: Sequence[RequirementResult]) -> Iterator[str]:
    if not requirements:
        return
    rows = []
    for entry in requirements:
        status, tone = _REQUIRED[entry.status]
        found = escaped(entry.missing or entry.found)
        rows.append((badge(status, tone), code(entry.text), found, escaped(entry.source)))
    yield from section("requirements", "Requirements", table(("", "required", "found", "source"), rows))


def _findings(report: Report) -> Iterator[str]:
    body = [part for finding in report.findings for part in _finding(finding)] or ["<p>None.</p>"]
    inconclusive = [f"<li>{code(check)} {escaped(reason)}</li>" for check, reason in inconclusive_checks(report)]
    if inconclusive:
        body += ["<h3>Undetermined</h3><ul>", *inconclusive, "</ul>"]
    suppressions = [f"<li>{escaped(suppression_text(entry))}</li>" for entry in report.allow_list]
    if suppressions:
        body += ["<h3>Allowed</h3><ul>", *suppressions, "</ul>"]
    yield from section("findings", "Findings", body)


def _finding(finding: Finding) -> Iterator[str]:
    tone = _SEVERITIES[finding.severity]
    badges = " " + badge("fix this first", "bad") if finding.primary else ""
    badges += " " + badge("allowed", "note") if finding.allowed else ""
    follows = (
        f' <span class="quiet">follows from {escaped(finding.follows_from)}</span>' if finding.follows_from else ""
    )
    yield f'<article class="{tone}"><h3>{escaped(finding.title)}.</h3><p>{badge(finding.severity.value, tone)}{badges} '
    yield f"{code(finding.code)} {code(finding.cause)}{follows}</p>"
    if finding.evidence:
        items = (f"<li>{code(evidence_text(entry))}</li>" for entry in finding.evidence)
        yield f"<h4>Evidence</h4><ul>{''.join(items)}</ul>"
    if finding.fix:
        yield "<h4>Fix</h4><ol>"
        for fix in finding.fix:
            line = fix_command(fix)
            command = f"<pre tabindex=0>{escaped(line)}</pre>" if line else ""
            yield f"<li>{escaped(fix.text)}{command}</li>"
        yield "</ol>"
    link = f' <a href="{escaped(finding.docs_url)}">{escaped(finding.docs_url)}</a>' if finding.docs_url else ""
    yield f'<p class="quiet">{escaped(finding.docs)}{link}</p></article>'


def _wheel(resolution: Resolution) -> Iterator[str]:
    body = []
    if resolution.wheel is not None:
        body.append(
            f"<pre tabindex=0>{escaped(command_text(['pip', 'install', *resolution.wheel.requirements]))}</pre>"
        )
    body.append(f"<p>{'<br>'.join(escaped(line) for line in resolution.explanation.splitlines())}</p>")
    body += [f"<p>{escaped(text)}</p>" for text in assumption_texts(resolution)]
    body += _why_not(resolution.rejected)
    yield from section("wheel", "The right wheel, and why not the others", body)


def _why_not(rejected: Sequence[Rejection]) -> Iterator[str]:
    """A tree: the wheel line, its releases, and each violated constraint with its row of the matrix."""
    lines: dict[str, dict[str, list[Rejection]]] = {}
    for entry in rejected:
        lines.setdefault(entry.candidate.name, {}).setdefault(entry.candidate.label, []).append(entry)
    for name, releases in lines.items():
        yield f"<details><summary>{code(name)}: {len(releases)} rejected</summary><ul>"
        for label, entries in releases.items():
            reasons = "".join(
                f"<li>{code(e.constraint.value)}: needs {escaped(e.needed)}, found {escaped(e.found)} "
                f'<span class="quiet">{escaped(e.source)}</span></li>'
                for e in entries
            )
            yield f"<li>{code(label)}<ul>{reasons}</ul></li>"
        yield "</ul></details>"


def _history(history: Sequence[EarlierRun]) -> Iterator[str]:
    if not history:
        return
    drawing = timeline([(entry.taken_at, _TONES[entry.status], entry.status.value) for entry in history])
    rows = [
        (
            badge(e.status.value, _TONES[e.status]),
            escaped(e.taken_at),
            code(e.primary or ""),
            f"{e.duration:.1f} s",
            escaped(e.name),
        )
        for e in reversed(history)
    ]
    body = [drawing, *table(("", "time", "fix first", "duration", "file"), rows)]
    yield from section("history", "Earlier runs", body)


_TEST_TONES = {TestStatus.PASSED: "good", TestStatus.BUSY: "warn", TestStatus.SKIPPED: "warn"}
_RATES = {"FLOP/s": "Arithmetic", "B/s": "Copies", "s": "Latencies"}
_REFERENCES = {
    "data-sheet": "of the data sheet",
    "sisters": "of the other GPUs",
    "baseline": "of the baseline",
    "baseline-product": "of the product's baseline",
    "minimum": "of the required minimum",
    "start": "of the first rate",
}
_UUID_LENGTH = 12  # characters of a UUID that identify a GPU within a report


def smoke_section(report: Report) -> Iterator[str]:
    """The section; empty unless GPU tests were requested."""
    result = report.smoke
    if result is None:
        return
    summary = f"{counts_text(result)}; level {result.level.value}, seed {result.seed}, {result.duration:.1f} s"
    rows = [
        (
            badge(test.status.value, _TEST_TONES.get(test.status, "bad")),
            code(test_label(test)),
            escaped(test.gpu or ""),
            f"{test.duration:.2f} s",
            escaped(test.detail or ""),
        )
        for test in result.tests
    ]
    times = [ChartBar(test_label(test), test.duration, f"{test.duration:.2f} s") for test in result.tests]
    body = [
        f"<p>{escaped(summary)}</p>",
        *_measured(smoke_series(result)),
        *table(("", "test", "GPU", "duration", "detail"), rows),
        bars(times, "duration of each GPU test in seconds"),
    ]
    yield from section("smoke", "GPU tests", body)


def _measured(series: Sequence[Series]) -> Iterator[str]:
    """One chart per unit, and a chart of the values relative to data sheet, other GPUs and baseline."""
    several = len({entry.gpu for entry in series}) > 1
    for unit, title in _RATES.items():
        of_unit = [entry for entry in series if entry.unit == unit]
        if of_unit:
            yield f"<h3>{escaped(title)}</h3>"
            yield bars([_bar(entry, several=several) for entry in of_unit], f"{title}, in {unit}")
    parts = [
        ChartBar(
            _series_name(entry, several=several),
            comparison.ratio,
            f"{format_share(comparison.ratio)} {_REFERENCES[comparison.against]}",
            comparison.worse,
        )
        for entry in series
        for comparison in entry.comparisons
    ]
    if parts:
        yield "<h3>Compared</h3>"
        yield bars(parts, "measured values relative to their references", 1.0)
    rest = [entry for entry in series if entry.unit not in _RATES or len(entry.values) > 1]
    if rest:
        cells = [
            (code(_series_name(entry, several=several)), escaped(entry.text), sparkline(entry.values, entry.name))
            for entry in rest
        ]
        yield from table(("measured", "", "repetitions"), cells)


def _bar(entry: Series, *, several: bool) -> ChartBar:
    value = median(entry.values)
    worse = any(comparison.worse for comparison in entry.comparisons)
    return ChartBar(_series_name(entry, several=several), value, format_quantity(Quantity(value, entry.unit)), worse)


def _series_name(entry: Series, *, several: bool) -> str:
    return f"{entry.name} {entry.gpu[:_UUID_LENGTH]}" if several and entry.gpu else entry.name


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A row of the history."""

    name: str  # the file of its report
    taken_at: str  # when the machine was probed, ISO 8601
    status: Status
    primary: str | None  # code and cause of the primary finding
    duration: float  # seconds


def parse_earlier_run(name: str, data: Any) -> EarlierRun | None:  # noqa: ANN401 - JSON
    """The run of a JSON report; None for anything else."""
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        return None
    try:
        primaries = [entry for entry in data["findings"] if entry["primary"]]
        duration = float(data["duration"])
        if not math.isfinite(duration):
            return None
        return EarlierRun(
            name=name,
            taken_at=str(data["snapshot"]["taken_at"] or ""),
            status=Status(data["status"]),
            primary=f"{primaries[0]['code']} {primaries[0]['cause']}" if primaries else None,
            duration=duration,
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
