"""A report as one page that needs nothing else: no script, no font, no image, no network. Pure.

It follows the reader's choice of light or dark, can be read with the keyboard alone, and prints with everything open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuenv import __version__
from gpuenv.model.finding import CheckRun, Finding, Severity
from gpuenv.model.requirement import RequirementResult, RequirementStatus
from gpuenv.model.resolution import Rejection, Resolution
from gpuenv.report.history import Earlier
from gpuenv.report.html_parts import badge, escaped, mono, section, table
from gpuenv.report.html_plot import timeline
from gpuenv.report.html_smoke import smoke_section
from gpuenv.report.html_style import STYLE
from gpuenv.report.report import Report, Status
from gpuenv.report.text import command_text, evidence_text, machine_rows
from gpuenv.report.told import allowance_text
from gpuenv.report.undecided import crashed, open_questions
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
            f"<title>gpuenv: {escaped(word)}</title><style>{STYLE}</style></head><body>",
            '<a class="skip" href="#findings">To the findings</a><main>',
            *_header(report, word, sentence),
            *_machine(report),
            *_requirements(report.requirements),
            *_findings(report),
            *_wheel(report.resolution),
            *smoke_section(report),
            *_history(history),
            *_checks(report.checks),
            *_footer(report),
            "</main></body></html>",
            "",
        ]
    )


def _header(report: Report, word: str, sentence: str) -> Iterator[str]:
    yield f'<header class="{_TONES[report.status]}"><h1>{escaped(word)}</h1><p>{escaped(sentence)}</p>'
    if report.retry_elsewhere:
        yield f"<p>Try another host: {escaped(report.retry_elsewhere)}.</p>"
    when = f"{escaped(report.snapshot.taken_at)}, " if report.snapshot.taken_at else ""
    yield f'<p class="quiet">{when}exit code {report.exit_code}, {report.duration:.1f} s</p></header>'


def _machine(report: Report) -> Iterator[str]:
    rows = (f"<dt>{escaped(label)}</dt><dd>{escaped(text)}</dd>" for label, text in machine_rows(report.snapshot))
    yield from section("machine", "Machine", ["<dl>", *rows, "</dl>"])


def _requirements(requirements: Sequence[RequirementResult]) -> Iterator[str]:
    if not requirements:
        return
    rows = []
    for entry in requirements:
        word, tone = _REQUIRED[entry.status]
        rows.append((badge(word, tone), mono(entry.text), escaped(entry.missing or entry.found), escaped(entry.source)))
    yield from section("requirements", "Requirements", table(("", "required", "found", "asked by"), rows))


def _findings(report: Report) -> Iterator[str]:
    body = [part for finding in report.findings for part in _finding(finding)] or ["<p>None.</p>"]
    unknown = [f"<li>{mono(c)} {escaped(why)}</li>" for c, why in (*open_questions(report), *crashed(report))]
    if unknown:
        body += ["<h3>Could not be told</h3><ul>", *unknown, "</ul>"]
    allowed = [f"<li>{escaped(allowance_text(entry))}</li>" for entry in report.allow_list]
    if allowed:
        body += ["<h3>Allowed</h3><ul>", *allowed, "</ul>"]
    yield from section("findings", "Findings", body)


def _finding(finding: Finding) -> Iterator[str]:
    tone = _SEVERITIES[finding.severity]
    first = " " + badge("cure this first", "bad") if finding.primary else ""
    first += " " + badge("allowed", "note") if finding.allowed else ""
    follows = (
        f' <span class="quiet">follows from {escaped(finding.follows_from)}</span>' if finding.follows_from else ""
    )
    yield f'<article class="{tone}"><h3>{escaped(finding.title)}.</h3><p>{badge(finding.severity.value, tone)}{first} '
    yield f"{mono(finding.code)} {mono(finding.cause)}{follows}</p>"
    if finding.evidence:
        items = (f"<li>{mono(evidence_text(entry))}</li>" for entry in finding.evidence)
        yield f"<h4>Evidence</h4><ul>{''.join(items)}</ul>"
    if finding.fix:
        yield "<h4>Cure</h4><ol>"
        for fix in finding.fix:
            command = f"<pre tabindex=0>{escaped(command_text(fix.command))}</pre>" if fix.command else ""
            yield f"<li>{escaped(fix.text)}{command}</li>"
        yield "</ol>"
    yield f'<p class="quiet">{escaped(finding.docs)}</p></article>'


def _wheel(resolution: Resolution) -> Iterator[str]:
    body = []
    if resolution.wheel is not None:
        body.append(
            f"<pre tabindex=0>{escaped(command_text(['pip', 'install', *resolution.wheel.requirements]))}</pre>"
        )
    body.append(f"<p>{'<br>'.join(escaped(line) for line in resolution.explanation.splitlines())}</p>")
    body += [f"<p>If {escaped(told.fact)} is {escaped(told.value)}.</p>" for told in resolution.assumptions]
    body += _why_not(resolution.rejected)
    yield from section("wheel", "The right wheel, and why not the others", body)


def _why_not(rejected: Sequence[Rejection]) -> Iterator[str]:
    """A tree: the line, its releases, and each constraint with the row of the matrix behind it."""
    lines: dict[str, dict[str, list[Rejection]]] = {}
    for entry in rejected:
        lines.setdefault(entry.candidate.name, {}).setdefault(entry.candidate.label, []).append(entry)
    for name, releases in lines.items():
        yield f"<details><summary>{mono(name)}: {len(releases)} rejected</summary><ul>"
        for label, entries in releases.items():
            reasons = "".join(
                f"<li>{mono(e.constraint.value)}: needs {escaped(e.needed)}, found {escaped(e.found)} "
                f'<span class="quiet">{escaped(e.source)}</span></li>'
                for e in entries
            )
            yield f"<li>{mono(label)}<ul>{reasons}</ul></li>"
        yield "</ul></details>"


def _history(history: Sequence[Earlier]) -> Iterator[str]:
    if not history:
        return
    drawing = timeline([(entry.taken_at, _TONES[entry.status], entry.status.value) for entry in history])
    rows = [
        (
            badge(e.status.value, _TONES[e.status]),
            escaped(e.taken_at),
            mono(e.primary or ""),
            f"{e.duration:.1f} s",
            escaped(e.name),
        )
        for e in reversed(history)
    ]
    body = [drawing, *table(("", "asked", "to cure first", "took", "file"), rows)]
    yield from section("history", "Earlier runs", body)


def _checks(checks: Sequence[CheckRun]) -> Iterator[str]:
    rows = [(mono(run.code), escaped(run.status.value), escaped(run.reason or "")) for run in checks]
    rows_of_checks = table(("check", "status", "reason"), rows)
    body = [f"<details><summary>{len(checks)} checks</summary>", *rows_of_checks, "</details>"]
    yield from section("checks", "Checks", body)


def _footer(report: Report) -> Iterator[str]:
    yield f'<footer class="quiet">gpuenv {escaped(__version__)}, matrix {escaped(report.matrix_revision)}</footer>'
