"""A report as GitLab's code quality artifact; the test report of GitLab is JUnit.

The format is GitLab's (GitLab Docs, "Code Quality", report format: description, check_name, fingerprint, severity,
location.path and location.lines.begin).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from gpuenv.doctor.checks.requirement import REQUIREMENT_CHECK
from gpuenv.model.finding import Finding, RequirementStatus, Severity, SuppressionState
from gpuenv.report.findings import (
    default_location,
    detail_lines,
    finding_location,
    fingerprint,
    requirement_location,
    requirement_text,
    suppression_text,
    title_text,
)
from gpuenv.report.report import Report, Status, inconclusive_checks, verdict

_SEVERITIES = {Severity.ERROR: "critical", Severity.WARNING: "minor", Severity.NOTE: "info"}
_PRIMARY = "blocker"


def render(report: Report) -> str:
    """The artifact; ``report`` must be sanitized."""
    return json.dumps(list(_with_unique_fingerprints(_issues(report))), indent=2) + "\n"


def _with_unique_fingerprints(issues: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Numbers repeated fingerprints: GitLab accepts each once, and two equal GPUs may have the same fault."""
    counts: dict[str, int] = {}
    for issue in issues:
        key = str(issue["fingerprint"])
        counts[key] = counts.get(key, 0) + 1
        yield issue if counts[key] == 1 else {**issue, "fingerprint": fingerprint(f"{key}\n{counts[key]}")}


def _issues(report: Report) -> Iterator[dict[str, Any]]:
    for finding in report.findings:
        yield _finding(finding, report)
    for result in report.requirements:
        if result.status is RequirementStatus.UNKNOWN:
            location = requirement_location(result)
            yield _issue(REQUIREMENT_CHECK, requirement_text(result), "major", location, result.text)
    for entry in report.allow_list:
        if entry.state is SuppressionState.EXPIRED:
            name, description = f"allow/{entry.allowance.code}", f"suppression {suppression_text(entry)}"
            yield _issue(name, description, "minor", default_location(report), entry.allowance.reason)
    if report.status is Status.UNKNOWN:
        reasons = "; ".join(f"{code}: {reason}" for code, reason in inconclusive_checks(report))
        yield _issue("unknown", f"{verdict(report)[1]} {reasons}".strip(), "major", default_location(report), "")


def _finding(finding: Finding, report: Report) -> dict[str, Any]:
    severity = _PRIMARY if finding.primary else _SEVERITIES[finding.severity]
    name = f"{finding.code} {finding.cause}"
    issue = _issue(name, title_text(finding), severity, finding_location(finding, report), finding.title)
    return {**issue, "content": {"body": "\n".join(detail_lines(finding))}}


def _issue(name: str, description: str, severity: str, location: tuple[str, int], identity: str) -> dict[str, Any]:
    path, line = location
    return {
        "type": "issue",
        "check_name": name,
        "description": description,
        "severity": severity,
        "fingerprint": fingerprint(f"{name}\n{path}\n{identity}"),
        "location": {"path": path, "lines": {"begin": line}},
    }
