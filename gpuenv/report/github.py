"""A report as annotations of GitHub Actions: workflow commands, one a finding.

The form and its escaping are GitHub's (GitHub Docs, "Workflow commands for GitHub Actions"; the runner unescapes %25,
%0D and %0A everywhere and %3A and %2C in properties). No line is anything but a command, so that no text of a machine
can be taken for one.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.model.finding import Finding, RequirementStatus, Severity
from gpuenv.report.findings import (
    allowance_text,
    detail_lines,
    machine_texts,
    requirement_of,
    requirement_text,
    undecided_texts,
    wheel_text,
)
from gpuenv.report.report import Report, verdict

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def render(report: Report) -> str:
    """The commands; ``report`` must be prepared."""
    return "".join(f"{line}\n" for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    """What is to be cured first comes first: the runner shows ten of a kind a step."""
    for finding in report.findings:
        yield _finding(finding, report)
    for result in report.requirements:
        if result.status is RequirementStatus.UNKNOWN:
            title = f"gpuenv: {result.text} could not be told"
            yield _command("warning", requirement_text(result), title=title, file=result.file, line=result.line)
    word, sentence = verdict(report)
    told = [sentence, *machine_texts(report), f"wheel: {wheel_text(report)}"]
    told += [requirement_text(result) for result in report.requirements]
    told += undecided_texts(report)
    told += [f"allowed, {allowance_text(entry)}" for entry in report.allow_list]
    if report.retry_elsewhere:
        told.append(f"try another host: {report.retry_elsewhere}")
    yield _command("notice", "\n".join(told), title=f"gpuenv: {word} (exit code {report.exit_code})")


def _finding(finding: Finding, report: Report) -> str:
    result = requirement_of(finding, report)
    first = "cure this first: " if finding.primary else ""
    return _command(
        _COMMANDS[finding.severity],
        "\n".join([f"{first}{finding.title}.", *detail_lines(finding)]),
        title=f"{finding.code} {finding.cause}",
        file=result.file if result else None,
        line=result.line if result else None,
    )


def _command(name: str, message: str, *, title: str, file: str | None = None, line: int | None = None) -> str:
    given = {"file": file, "line": str(line) if file and line else None, "title": title}
    properties = ",".join(
        f"{key}={_data(value).replace(':', '%3A').replace(',', '%2C')}" for key, value in given.items() if value
    )
    return f"::{name} {properties}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
