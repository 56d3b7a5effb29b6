"""A report as a self-contained HTML page, without scripts, fonts, images or network access."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import median
from typing import Any, NamedTuple

from gpuenv import __version__
from gpuenv.model.finding import Finding, RequirementResult, RequirementStatus, Severity
from gpuenv.model.resolution import Rejection, Resolution
from gpuenv.model.smoke import Quantity, TestStatus
from gpuenv.model.strings import format_quantity, format_share
from gpuenv.report.findings import suppression_text
from gpuenv.report.job import host_text
from gpuenv.report.report import SCHEMA, Report, Status, inconclusive_checks, verdict
from gpuenv.report.smoke_text import Series, counts_text, smoke_series, test_label
from gpuenv.report.text import assumption_texts, command_text, evidence_text, fix_command, report_rows

_TONES = {Status.FIT: "good", Status.DEGRADED: "warn", Status.UNKNOWN: "warn", Status.UNFIT: "bad"}
_SEVERITIES = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.NOTE: "note"}
_REQUIRED = {
    RequirementStatus.MET: ("met", "good"),
    RequirementStatus.VIOLATED: ("not met", "bad"),
    RequirementStatus.UNKNOWN: ("unknown", "warn"),
}
# The page loads and runs nothing, even if a name of a GPU contains markup.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


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


def page(title: str, body: Iterable[str], matrix_revision: str, skip: tuple[str, str]) -> str:
    """A page; ``skip`` is the anchor and the text of the link for those who listen to it."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escaped(title)} - gpuenv</title><style>{STYLE}</style></head><body>",
            f'<a class="skip" href="#{skip[0]}">{escaped(skip[1])}</a><main>',
            *body,
            f'<footer class="quiet">gpuenv {escaped(__version__)}, matrix {escaped(matrix_revision)}</footer>',
            "</main></body></html>",
            "",
        ]
    )


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


def escaped(text: object) -> str:
    """Escaped text, for elements and attributes."""
    return escape(str(text), quote=True)


def section(name: str, title: str, body: Iterable[str]) -> Iterator[str]:
    """A section with a heading and an anchor."""
    yield f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{escaped(title)}</h2>'
    yield from body
    yield "</section>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table of HTML cells; a wide one scrolls on its own, also by keyboard."""
    yield '<div class="scroll" tabindex="0" role="group"><table><thead><tr>'
    yield "".join(f'<th scope="col">{escaped(name)}</th>' for name in head)
    yield "</tr></thead><tbody>"
    for row in rows:
        yield "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
    yield "</tbody></table></div>"


def badge(text: str, tone: str) -> str:
    """A label in a rounded frame."""
    return f'<span class="badge {tone}">{escaped(text)}</span>'


def code(text: object) -> str:
    """Text as code; an empty text stays empty."""
    return f"<code>{escaped(text)}</code>" if str(text) else ""


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
        yield fractions(parts, "measured values relative to their references")
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


_WIDTH, _ROW, _LABEL, _NUMBER = 720, 20, 240, 170
_SPARK_WIDTH, _SPARK_HEIGHT = 120, 24
_MAX_BARS = 60
_TEXT_WIDTH = 34  # characters that fit next to a bar


class ChartBar(NamedTuple):
    """A bar of a chart: its name, its value, the value as text, and whether it is worse than its reference."""

    name: str
    value: float
    text: str
    worse: bool = False


def bars(values: Sequence[ChartBar], title: str) -> str:
    """A chart with one bar per value; the longest one takes the full width."""
    return _chart(values, max((bar.value for bar in values), default=0.0) or 1.0, title, None)


def fractions(values: Sequence[ChartBar], title: str) -> str:
    """A chart with one bar per value and a line at one."""
    return _chart(values, max(1.0, *(bar.value for bar in values)), title, 1.0)


def _chart(values: Sequence[ChartBar], longest: float, title: str, mark: float | None) -> str:
    """A bar chart; with a line at ``mark`` the numbers are aligned in a column at the right."""
    shown, room = values[:_MAX_BARS], _WIDTH - _LABEL - _NUMBER
    rows = []
    if mark is not None:
        x, height = _LABEL + mark / longest * room, len(shown) * _ROW
        rows.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}"/>')
    for number, bar in enumerate(shown):
        top = number * _ROW
        width = max(1.0, bar.value / longest * room)
        number_x = _LABEL + (width if mark is None else room) + 6
        tone = "bad" if bar.worse else "bar"
        rows.append(
            f'<text x="0" y="{top + 14}">{escape(bar.name[:_TEXT_WIDTH])}</text>'
            f'<rect class="{tone}" x="{_LABEL}" y="{top + 4}" width="{width:.1f}" height="12"/>'
            f'<text x="{number_x:.1f}" y="{top + 14}">{escape(bar.text)}</text>'
        )
    omitted = len(values) - len(shown)
    full_title = f"{title}; {omitted} more in the table" if omitted else title
    return _svg(_WIDTH, max(1, len(shown)) * _ROW, full_title, "".join(rows))


def sparkline(series: Sequence[float], title: str) -> str:
    """A line chart of a series; empty for fewer than two values."""
    if len(series) < 2:  # noqa: PLR2004 - a line has two ends
        return ""
    lowest, highest = min(series), max(series)
    span = highest - lowest or 1.0
    step = _SPARK_WIDTH / (len(series) - 1)
    points = " ".join(
        f"{number * step:.1f},{_SPARK_HEIGHT - 2 - (value - lowest) / span * (_SPARK_HEIGHT - 4):.1f}"
        for number, value in enumerate(series)
    )
    label = f"{title}: {len(series)} values from {lowest:g} to {highest:g}"
    return _svg(_SPARK_WIDTH, _SPARK_HEIGHT, label, f'<polyline points="{points}"/>')


def timeline(runs: Sequence[tuple[str, str, str]]) -> str:
    """One block per run (time, tone, status), the oldest first."""
    width = max(2.0, min(24.0, _WIDTH / max(1, len(runs))))
    blocks = "".join(
        f'<rect class="{tone}" x="{number * width:.1f}" y="2" width="{max(1.0, width - 2):.1f}" height="20">'
        f"<title>{escape(time)}: {escape(status)}</title></rect>"
        for number, (time, tone, status) in enumerate(runs)
    )
    statuses = [status for _, _, status in runs]
    label = "earlier runs: " + ", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses))
    return _svg(_WIDTH, 24, label, blocks)


def _svg(width: int, height: int, title: str, body: str) -> str:
    label = escape(title, quote=True)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'<svg role="img" aria-label="{label}" {size}>{body}</svg>'


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A row of the history.

    Attributes:
        name: the file of its report.
        taken_at: when the machine was probed, ISO 8601.
        status: its verdict.
        primary: code and cause of the primary finding.
        duration: seconds.
    """

    name: str
    taken_at: str
    status: Status
    primary: str | None
    duration: float


def parse_earlier_run(name: str, data: Any) -> EarlierRun | None:  # noqa: ANN401 - JSON
    """The run of a JSON report; None for anything else."""
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        return None
    try:
        primaries = [entry for entry in data["findings"] if entry["primary"]]
        return EarlierRun(
            name=name,
            taken_at=str(data["snapshot"]["taken_at"] or ""),
            status=Status(data["status"]),
            primary=f"{primaries[0]['code']} {primaries[0]['cause']}" if primaries else None,
            duration=float(data["duration"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1b1f24; --quiet: #57606a; --line: #d0d7de; --soft: #f6f8fa;
  --good: #116329; --warn: #7d4e00; --bad: #a40e26; --note: #0550ae; }
@media (prefers-color-scheme: dark) { :root { --back: #0d1117; --text: #e6edf3; --quiet: #9da7b1; --line: #30363d;
  --soft: #161b22; --good: #56d364; --warn: #e3b341; --bad: #ff8182; --note: #79c0ff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { margin: 0; font-size: 1.6rem; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; } h3 { font-size: 1rem; margin: 0; }
h4 { font-size: .9rem; margin: .5rem 0 0; } p { margin: .3rem 0; } ul, ol { margin: .2rem 0; padding-left: 1.4rem; }
header, article { border-left: .35rem solid var(--line); background: var(--soft); padding: .8rem 1rem;
  margin: .6rem 0; }
header.good, article.good { border-color: var(--good); } header.warn, article.warn { border-color: var(--warn); }
header.bad, article.bad { border-color: var(--bad); } article.note { border-color: var(--note); }
header.good h1 { color: var(--good); } header.warn h1 { color: var(--warn); } header.bad h1 { color: var(--bad); }
.quiet { color: var(--quiet); font-size: .9rem; }
.badge { border: 1px solid; border-radius: .8rem; padding: 0 .5rem; font-size: .8rem; white-space: nowrap; }
.badge.good { color: var(--good); } .badge.warn { color: var(--warn); } .badge.bad { color: var(--bad); }
.badge.note { color: var(--note); }
a, code, pre { overflow-wrap: anywhere; } code, pre { font: .9em/1.5 ui-monospace, monospace; }
pre { background: var(--back); border: 1px solid var(--line); padding: .4rem .6rem; margin: .3rem 0;
  white-space: pre-wrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: 0; }
dt { color: var(--quiet); } dd { margin: 0; overflow-wrap: anywhere; } dd.bad { color: var(--bad); font-weight: bold; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line); }
summary { cursor: pointer; padding: .2rem 0; }
svg { max-width: 100%; height: auto; } svg text { fill: var(--text); font: 12px system-ui, sans-serif; }
svg .good { fill: var(--good); } svg .warn { fill: var(--warn); } svg .bad { fill: var(--bad); }
svg .bar { fill: var(--note); } svg line { stroke: var(--quiet); }
svg polyline { fill: none; stroke: var(--note); stroke-width: 1.5; }
:focus-visible { outline: 2px solid var(--note); outline-offset: 2px; }
.skip { position: absolute; left: -99rem; }
.skip:focus { left: 1rem; top: 1rem; background: var(--back); padding: .5rem; }
@media print { :root { --back: #fff; --text: #000; --quiet: #444; --line: #999; --soft: #fff; --good: #116329;
  --warn: #7d4e00; --bad: #a40e26; --note: #0550ae; color-scheme: light; }
  main { max-width: none; } .scroll { overflow: visible; } article, tr { break-inside: avoid; } .skip { display: none; }
  details::details-content { content-visibility: visible; display: block; block-size: auto; } }
"""
