"""A report as Markdown, for bug reports and for the job summary of GitHub Actions.

Texts of the machine are code spans or escaped, so that they can neither format, nor link, nor mention a user.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpuenv import __version__
from gpuenv.model.finding import CheckStatus, Finding, RequirementStatus, Severity
from gpuenv.report.findings import suppression_text, wheel_text
from gpuenv.report.report import Report, deciding_command, inconclusive_checks, verdict
from gpuenv.report.smoke_text import measured_texts, test_label
from gpuenv.report.text import evidence_text, fix_command, report_rows, wheel_lines
from gpuenv.report.text_line import counted

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~<>&$])")
_GROUPS = ((Severity.ERROR, "error"), (Severity.WARNING, "warning"), (Severity.NOTE, "note"))
_REQUIRED = {
    RequirementStatus.MET: "met",
    RequirementStatus.VIOLATED: "**not met**",
    RequirementStatus.UNKNOWN: "unknown",
}


def render(report: Report) -> str:
    """The document; ``report`` must be sanitized."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    status, sentence = verdict(report)
    yield f"## gpuenv: {status}"
    yield ""
    yield f"{_plain(sentence)} Exit code {report.exit_code}."
    if report.retry_elsewhere:
        yield ""
        yield f"Try another host: {_plain(report.retry_elsewhere)}."
    yield ""
    yield from _table(("", ""), [(row.label, _code(row.text)) for row in report_rows(report)])
    if report.requirements:
        yield "### Requirements"
        yield ""
        rows = [
            (_REQUIRED[r.status], _code(r.text), _code(r.missing or r.found), _code(r.source))
            for r in report.requirements
        ]
        yield from _table(("", "required", "found", "source"), rows)
    if report.findings:
        yield "### Findings"
        yield ""
    for finding in report.findings:
        yield from _finding(finding)
    if report.allow_list:
        yield "### Allowed"
        yield ""
        yield from (f"- {_code(suppression_text(entry))}" for entry in report.allow_list)
        yield ""
    yield from _smoke(report)
    if not report.host_only:
        yield from _wheel(report)
    yield from _closing(report)


def _wheel(report: Report) -> Iterator[str]:
    yield "### The right wheel"
    yield ""
    yield _code(wheel_text(report))
    yield ""
    # The lines of the text report below its heading and the wheel.
    _, _, *lines = [line.text.strip() for line in wheel_lines(report.resolution, without_gpu=report.lacks_gpu)]
    if lines:
        yield from (f"- {_plain(line)}" for line in lines)
        yield ""


def _finding(finding: Finding) -> Iterator[str]:
    first = ", **fix this first**" if finding.primary else ""
    follows = f", follows from {finding.follows_from}" if finding.follows_from else ""
    severity = finding.severity.value + (", allowed" if finding.allowed else "")
    yield f"**{finding.code}** `{finding.cause}` ({severity}{first}{follows}): {_plain(finding.title)}."
    yield ""
    for entry in finding.evidence:
        yield f"- {_code(evidence_text(entry))}"
    for fix in finding.fix:
        line = fix_command(fix)
        command = f" {_code(line)}" if line else ""
        yield f"- *fix:* {_plain(fix.text)}{command}"
    yield ""


def _smoke(report: Report) -> Iterator[str]:
    if report.smoke is None or not report.smoke.tests:
        return
    yield "### GPU tests"
    yield ""
    cells = [
        (
            test.status.value,
            _code(test_label(test)),
            _code(test.gpu or ""),
            f"{test.duration:.2f} s",
            _code("; ".join([test.detail or "", *measured_texts(test)]).strip("; ")),
        )
        for test in report.smoke.tests
    ]
    yield from _table(("", "test", "GPU", "duration", "detail"), cells)


def _closing(report: Report) -> Iterator[str]:
    inconclusive = inconclusive_checks(report)
    if inconclusive:
        yield "### Undetermined"
        yield ""
        yield from (f"- {code}: {_code(reason)}" for code, reason in inconclusive)
        if command := deciding_command(report):
            yield f"- To determine it, compute with this CuPy: {_code(command)}"
        yield ""
    skipped = sum(run.status is CheckStatus.SKIPPED for run in report.checks)
    counts = ", ".join(counted(sum(f.severity is kind for f in report.findings), name) for kind, name in _GROUPS)
    yield (
        f"{len(report.checks)} checks, {skipped} skipped, {counts}; {report.duration:.1f} s; "
        f"gpuenv {__version__}, matrix {_code(report.matrix_revision)}"
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
    yield ""


def _plain(text: str) -> str:
    """Escaped text; a zero-width space keeps an @ from mentioning a user."""
    return _SPECIAL.sub(r"\\\1", text).replace("@", "@&#8203;")


def _code(text: str) -> str:
    """A code span, fenced by more backticks than it contains (CommonMark 0.31, section 6.1)."""
    if not text.strip():
        return ""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"
