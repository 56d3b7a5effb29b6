"""A report as GitLab's code quality artefact; the test report of GitLab is JUnit.

The form is GitLab's (GitLab Docs, "Code Quality", report format: description, check_name, fingerprint, severity,
location.path and location.lines.begin).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from gpuenv.doctor.checks.requirement import REQUIREMENT_CHECK
from gpuenv.model.finding import Finding, RequirementStatus, Severity, SuppressionState
from gpuenv.report.findings import (
    allowance_text,
    anchor,
    detail_lines,
    fingerprint,
    requirement_anchor,
    requirement_text,
    usual_anchor,
)
from gpuenv.report.report import Report, Status, undecided, verdict

_SEVERITIES = {Severity.ERROR: "critical", Severity.WARNING: "minor", Severity.NOTE: "info"}
_FIRST = "blocker"


def render(report: Report) -> str:
    """The artefact; ``report`` must be prepared."""
    return json.dumps(list(_told_apart(_issues(report))), indent=2) + "\n"


def _told_apart(issues: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Two GPUs of a kind may have one fault, and GitLab takes each fingerprint once: the second has a number."""
    seen: dict[str, int] = {}
    for issue in issues:
        key = str(issue["fingerprint"])
        seen[key] = seen.get(key, 0) + 1
        yield issue if seen[key] == 1 else {**issue, "fingerprint": fingerprint(f"{key}\n{seen[key]}")}


def _issues(report: Report) -> Iterator[dict[str, Any]]:
    for finding in report.findings:
        yield _finding(finding, report)
    for result in report.requirements:
        if result.status is RequirementStatus.UNKNOWN:
            yield _issue(REQUIREMENT_CHECK, requirement_text(result), "major", requirement_anchor(result), result.text)
    for entry in report.allow_list:
        if entry.state is SuppressionState.EXPIRED:
            told = f"allow-list, {allowance_text(entry)}"
            yield _issue(f"allow/{entry.allowance.code}", told, "minor", usual_anchor(report), entry.allowance.reason)
    if report.status is Status.UNKNOWN:
        told = "; ".join(f"{code}: {why}" for code, why in undecided(report))
        yield _issue("unknown", f"{verdict(report)[1]} {told}".strip(), "major", usual_anchor(report), "")


def _finding(finding: Finding, report: Report) -> dict[str, Any]:
    severity = _FIRST if finding.primary else _SEVERITIES[finding.severity]
    name = f"{finding.code} {finding.cause}"
    issue = _issue(name, f"{finding.title}.", severity, anchor(finding, report), finding.title)
    return {**issue, "content": {"body": "\n".join(detail_lines(finding))}}


def _issue(name: str, description: str, severity: str, place: tuple[str, int], identity: str) -> dict[str, Any]:
    path, line = place
    return {
        "type": "issue",
        "check_name": name,
        "description": description,
        "severity": severity,
        "fingerprint": fingerprint(f"{name}\n{path}\n{identity}"),
        "location": {"path": path, "lines": {"begin": line}},
    }
