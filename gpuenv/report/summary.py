"""A report in at most 3 kB of JSON, for assistants and bug reports: what is wrong, the evidence and the fix."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from gpuenv.model.codec import encode
from gpuenv.model.finding import Finding, Fix, Severity
from gpuenv.model.redaction import cut_text
from gpuenv.report.findings import wheel_text
from gpuenv.report.report import Report, inconclusive_checks, primary, verdict
from gpuenv.report.text import evidence_text, fix_command, report_rows

SCHEMA = "gpuenv.summary/1"
_LARGEST = 3000  # bytes
_MOST = (3, 2, 1)  # pieces of evidence, fixes and further findings: as many as fit
_TEXT, _COMMAND = 120, 240  # characters; a command is complete or absent


class SummaryFix(NamedTuple):
    """One step of a fix; the command is null where there is none, or where it is too long for a summary."""

    text: str
    command: str | None


class SummaryFinding(NamedTuple):
    """The finding to fix first."""

    code: str
    cause: str
    title: str
    evidence: tuple[str, ...]
    fix: tuple[SummaryFix, ...]
    explain: str  # the command that explains it


class Summary(NamedTuple):
    """A report in few words."""

    status: str  # fit, degraded, unfit or unknown
    exit_code: int
    sentence: str  # the verdict
    machine: dict[str, str]  # what was examined, by label
    primary: SummaryFinding | None  # the finding to fix first; null without one
    others: tuple[str, ...]  # codes and titles of further errors and warnings
    unknown: tuple[str, ...]  # what could not be decided
    wheel: str  # the requirements of the right CuPy, ``none fits`` or ``unknown``
    gpuenv_version: str
    matrix_revision: str
    schema: str = SCHEMA


def render(report: Report) -> str:
    """The summary as JSON; ``report`` must be sanitized."""
    texts = [json.dumps(encode(summary_of(report, most)), indent=1, ensure_ascii=True) + "\n" for most in _MOST]
    return next((text for text in texts if len(text) <= _LARGEST), texts[-1])


def summary_of(report: Report, most: int) -> Summary:
    """The summary of a report, with at most so many pieces of evidence, fixes and further findings."""
    first = primary(report)
    others = [entry for entry in report.findings if entry is not first and entry.severity is not Severity.NOTE]
    return Summary(
        status=report.status.value,
        exit_code=report.exit_code,
        sentence=cut_text(verdict(report)[1], _TEXT),
        machine={row.label: cut_text(row.text, _TEXT) for row in report_rows(report) if row.label},
        primary=None if first is None else _finding(first, most),
        others=_few((f"{entry.code}: {entry.title}" for entry in others), most),
        unknown=_few((f"{code}: {reason}" for code, reason in inconclusive_checks(report)), most),
        wheel=cut_text(wheel_text(report), _TEXT),
        gpuenv_version=report.gpuenv_version,
        matrix_revision=report.matrix_revision,
    )


def _finding(finding: Finding, most: int) -> SummaryFinding:
    return SummaryFinding(
        code=finding.code,
        cause=finding.cause.value,
        title=cut_text(finding.title, _TEXT),
        evidence=_few((evidence_text(entry) for entry in finding.evidence if entry.to_the_point), most),
        fix=tuple(map(_fix, finding.fix[:most])),
        explain=finding.docs,
    )


def _fix(fix: Fix) -> SummaryFix:
    command = fix_command(fix)
    return SummaryFix(cut_text(fix.text, _TEXT), command if command and len(command) <= _COMMAND else None)


def _few(texts: Iterable[str], most: int) -> tuple[str, ...]:
    return tuple(cut_text(text, _TEXT) for text in islice(texts, most))
