"""A report as annotations of GitHub Actions: workflow commands, one a finding.

The format and its escaping are GitHub's (GitHub Docs, "Workflow commands for GitHub Actions"; the runner unescapes %25,
%0D and %0A everywhere and %3A and %2C in properties). Every line is a command, so that no text of a machine can be
mistaken for one.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.model.finding import Finding, RequirementStatus, Severity
from gpuenv.report.findings import (
    detail_lines,
    inconclusive_texts,
    machine_texts,
    requirement_of,
    requirement_text,
    suppression_text,
    title_text,
    wheel_text,
)
from gpuenv.report.report import Report, verdict

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def render(report: Report) -> str:
    """The commands; ``report`` must be sanitized."""
    return "".join(f"{line}\n" for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    """The primary finding comes first, since the runner shows only ten annotations of a kind per step."""
    for finding in report.findings:
        yield _finding(finding, report)
    for result in report.requirements:
        if result.status is RequirementStatus.UNKNOWN:
            title = f"gpuenv: {result.text} is undetermined"
            yield _command("warning", requirement_text(result), title=title, file=result.file, line=result.line)
    status, sentence = verdict(report)
    summary = [sentence, *machine_texts(report), f"wheel: {wheel_text(report)}"]
    summary += [requirement_text(result) for result in report.requirements]
    summary += inconclusive_texts(report)
    summary += [f"allowed, {suppression_text(entry)}" for entry in report.allow_list]
    if report.retry_elsewhere:
        summary.append(f"Try another host: {report.retry_elsewhere}")
    yield _command("notice", "\n".join(summary), title=f"gpuenv: {status} (exit code {report.exit_code})")


def _finding(finding: Finding, report: Report) -> str:
    result = requirement_of(finding, report)
    return _command(
        _COMMANDS[finding.severity],
        "\n".join([title_text(finding), *detail_lines(finding)]),
        title=f"{finding.code} {finding.cause}",
        file=result.file if result else None,
        line=result.line if result else None,
    )


def _command(name: str, message: str, *, title: str, file: str | None = None, line: int | None = None) -> str:
    properties = {"file": file, "line": str(line) if file and line else None, "title": title}
    pairs = ",".join(
        f"{key}={_escaped(value).replace(':', '%3A').replace(',', '%2C')}" for key, value in properties.items() if value
    )
    return f"::{name} {pairs}::{_escaped(message)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
