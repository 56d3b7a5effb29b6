"""A report as one page that needs nothing else: no script, no font, no image, no network. Pure.

It follows the reader's choice of light or dark, can be read with the keyboard alone, and prints with everything open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from gpuenv import __version__
from gpuenv.matrix.explanation import changes_text
from gpuenv.model.finding import CheckRun, Finding, Severity
from gpuenv.model.requirement import RequirementResult, RequirementStatus
from gpuenv.model.resolution import Rejection, Resolution
from gpuenv.report.history import Earlier
from gpuenv.report.html_plot import bars, sparkline, timeline
from gpuenv.report.html_style import STYLE
from gpuenv.report.report import Report, Status
from gpuenv.report.smoke_rows import BAD, SmokeRow, smoke_rows
from gpuenv.report.text import command_text, machine_rows
from gpuenv.report.told import allowance_text, crashed, evidence_text, open_questions
from gpuenv.report.verdict import verdict

_TONES = {Status.FIT: "good", Status.DEGRADED: "warn", Status.UNKNOWN: "warn", Status.UNFIT: "bad"}
_SEVERITIES = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.NOTE: "note"}
_REQUIRED = {
    RequirementStatus.MET: ("met", "good"),
    RequirementStatus.VIOLATED: ("not met", "bad"),
    RequirementStatus.UNKNOWN: ("unknown", "warn"),
}
# Nothing may be loaded or run, whatever a machine calls its GPU.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_PASSED = "passed"


def html_text(report: Report, history: Sequence[Earlier] = ()) -> str:
    """The page; ``report`` must be prepared."""
    word, sentence = verdict(report)
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>gpuenv: {_(word)}</title><style>{STYLE}</style></head><body>",
            '<a class="skip" href="#findings">To the findings</a><main>',
            *_header(report, word, sentence),
            *_machine(report),
            *_requirements(report.requirements),
            *_findings(report),
            *_wheel(report.resolution),
            *_smoke(smoke_rows(report)),
            *_history(history),
            *_checks(report.checks),
            *_footer(report),
            "</main></body></html>",
            "",
        ]
    )


def _(text: object) -> str:
    return escape(str(text), quote=True)


def _header(report: Report, word: str, sentence: str) -> Iterator[str]:
    yield f'<header class="{_TONES[report.status]}"><h1>{_(word)}</h1><p>{_(sentence)}</p>'
    if report.retry_elsewhere:
        yield f"<p>Try another host: {_(report.retry_elsewhere)}.</p>"
    when = f"{_(report.snapshot.taken_at)}, " if report.snapshot.taken_at else ""
    yield f'<p class="quiet">{when}exit code {report.exit_code}, {report.duration:.1f} s</p></header>'


def _section(name: str, title: str, body: Iterable[str]) -> Iterator[str]:
    yield f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{_(title)}</h2>'
    yield from body
    yield "</section>"


def _machine(report: Report) -> Iterator[str]:
    rows = (f"<dt>{_(label)}</dt><dd>{_(text)}</dd>" for label, text in machine_rows(report.snapshot))
    yield from _section("machine", "Machine", ["<dl>", *rows, "</dl>"])


def _requirements(requirements: Sequence[RequirementResult]) -> Iterator[str]:
    if not requirements:
        return
    rows = []
    for entry in requirements:
        word, tone = _REQUIRED[entry.status]
        rows.append((_badge(word, tone), _mono(entry.text), _(entry.missing or entry.found), _(entry.source)))
    yield from _section("requirements", "Requirements", _table(("", "required", "found", "asked by"), rows))


def _findings(report: Report) -> Iterator[str]:
    body = [part for finding in report.findings for part in _finding(finding)] or ["<p>None.</p>"]
    unknown = [f"<li>{_mono(c)} {_(why)}</li>" for c, why in (*open_questions(report), *crashed(report))]
    if unknown:
        body += ["<h3>Could not be told</h3><ul>", *unknown, "</ul>"]
    allowed = [f"<li>{_(allowance_text(entry))}</li>" for entry in report.allow_list]
    if allowed:
        body += ["<h3>Allowed</h3><ul>", *allowed, "</ul>"]
    yield from _section("findings", "Findings", body)


def _finding(finding: Finding) -> Iterator[str]:
    tone = _SEVERITIES[finding.severity]
    first = " " + _badge("cure this first", "bad") if finding.primary else ""
    first += " " + _badge("allowed", "note") if finding.allowed else ""
    follows = f' <span class="quiet">follows from {_(finding.follows_from)}</span>' if finding.follows_from else ""
    yield f'<article class="{tone}"><h3>{_(finding.title)}.</h3><p>{_badge(finding.severity.value, tone)}{first} '
    yield f"{_mono(finding.code)} {_mono(finding.cause)}{follows}</p>"
    if finding.evidence:
        items = (f"<li>{_mono(evidence_text(entry))}</li>" for entry in finding.evidence)
        yield f"<h4>Evidence</h4><ul>{''.join(items)}</ul>"
    if finding.fix:
        yield "<h4>Cure</h4><ol>"
        for fix in finding.fix:
            command = f"<pre tabindex=0>{_(command_text(fix.command))}</pre>" if fix.command else ""
            yield f"<li>{_(fix.text)}{command}</li>"
        yield "</ol>"
    yield f'<p class="quiet">{_(finding.docs)}</p></article>'


def _wheel(resolution: Resolution) -> Iterator[str]:
    body = []
    if resolution.wheel is not None:
        body.append(f"<pre tabindex=0>{_(command_text(['pip', 'install', *resolution.wheel.requirements]))}</pre>")
    body.append(f"<p>{'<br>'.join(_(line) for line in resolution.explanation.splitlines())}</p>")
    if resolution.next_better is not None:
        better = resolution.next_better
        body.append(f"<p>Better still, with {_(changes_text(better))}: {_mono(better.candidate.label)}</p>")
    body += [f"<p>If {_(told.fact)} is {_(told.value)}.</p>" for told in resolution.assumptions]
    if resolution.conda is not None:
        body.append(f"<p>conda ({_(resolution.conda.channel)}): {_mono(' '.join(resolution.conda.specs))}</p>")
    if resolution.image is not None:
        body.append(f"<p>Image: {_mono(resolution.image.reference)}</p>")
    body += _why_not(resolution.rejected)
    yield from _section("wheel", "The right wheel, and why not the others", body)


def _why_not(rejected: Sequence[Rejection]) -> Iterator[str]:
    """A tree: the line, its releases, and each constraint with the row of the matrix behind it."""
    lines: dict[str, dict[str, list[Rejection]]] = {}
    for entry in rejected:
        lines.setdefault(entry.candidate.name, {}).setdefault(entry.candidate.label, []).append(entry)
    for name, releases in lines.items():
        yield f"<details><summary>{_mono(name)}: {len(releases)} rejected</summary><ul>"
        for label, entries in releases.items():
            reasons = "".join(
                f"<li>{_mono(e.constraint.value)}: needs {_(e.needed)}, found {_(e.found)} "
                f'<span class="quiet">{_(e.source)}</span></li>'
                for e in entries
            )
            yield f"<li>{_mono(label)}<ul>{reasons}</ul></li>"
        yield "</ul></details>"


def _smoke(rows: Sequence[SmokeRow]) -> Iterator[str]:
    if not rows:
        return
    cells = []
    for row in rows:
        tone = "good" if row.status == _PASSED else "bad" if row.status in BAD else "warn"
        measured = "".join(f"<br>{_(m.name)}: {_(m.text)} {sparkline(m.series, m.name)}" for m in row.measured)
        told = f"{_(row.detail)}{measured}"
        cells.append((_badge(row.status, tone), _mono(row.name), _(row.gpu), f"{row.duration:.2f} s", told))
    body = [
        bars([(row.name, row.duration) for row in rows], "seconds that each GPU test took"),
        *_table(("", "test", "GPU", "took", "measured"), cells),
    ]
    yield from _section("smoke", "GPU tests", body)


def _history(history: Sequence[Earlier]) -> Iterator[str]:
    if not history:
        return
    drawing = timeline([(entry.taken_at, _TONES[entry.status], entry.status.value) for entry in history])
    rows = [
        (
            _badge(e.status.value, _TONES[e.status]),
            _(e.taken_at),
            _mono(e.primary or ""),
            f"{e.duration:.1f} s",
            _(e.name),
        )
        for e in reversed(history)
    ]
    body = [drawing, *_table(("", "asked", "to cure first", "took", "file"), rows)]
    yield from _section("history", "Earlier runs", body)


def _checks(checks: Sequence[CheckRun]) -> Iterator[str]:
    rows = [(_mono(run.code), _(run.status.value), _(run.reason or "")) for run in checks]
    table = _table(("check", "status", "reason"), rows)
    body = [f"<details><summary>{len(checks)} checks</summary>", *table, "</details>"]
    yield from _section("checks", "Checks", body)


def _footer(report: Report) -> Iterator[str]:
    yield f'<footer class="quiet">gpuenv {_(__version__)}, matrix {_(report.matrix_revision)}</footer>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Cells are HTML already; a wide table is scrolled by itself, also with the keyboard."""
    yield '<div class="scroll" tabindex="0" role="group"><table><thead><tr>'
    yield "".join(f'<th scope="col">{_(name)}</th>' for name in head)
    yield "</tr></thead><tbody>"
    for row in rows:
        yield "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
    yield "</tbody></table></div>"


def _badge(word: str, tone: str) -> str:
    return f'<span class="badge {tone}">{_(word)}</span>'


def _mono(text: object) -> str:
    return f"<code>{_(text)}</code>" if str(text) else ""
