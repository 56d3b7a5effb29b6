"""A report of check-image as SARIF (Static Analysis Results Interchange Format Version 2.1.0, OASIS Standard)."""

from __future__ import annotations

from typing import Any

from gpuenv.doctor.registry import DocumentedCheck, all_checks
from gpuenv.image.inspect.image_report import ImageFinding, ImageReport
from gpuenv.image.inspect.rules import all_rules
from gpuenv.report.findings import fingerprint
from gpuenv.report.report import Status
from gpuenv.report.sarif import LEVELS, log_of, tool_of, uri_of

_USUAL = "Dockerfile"  # a finding without a file is shown there: systems of code review require a location


def sarif_text(report: ImageReport) -> str:
    """The report as a SARIF log."""
    found = {finding.code for finding in report.findings}
    every: tuple[DocumentedCheck, ...] = (*all_checks(), *all_rules())
    run = {
        "tool": tool_of({each.code: each for each in every if each.code in found}.values()),
        "automationDetails": {"id": "gpuenv/check-image/"},
        "invocations": [_invocation(report)],
        "results": [_result(finding, report) for finding in report.findings],
        "properties": {
            "status": report.status.value,
            "runs_on": list(report.runs_on),
            "matrix_revision": report.matrix_revision,
        },
    }
    return log_of(run)


def _invocation(report: ImageReport) -> dict[str, Any]:
    unknown = [f"{machine.machine}: not known: {text}" for machine in report.machines for text in machine.unknown]
    return {
        "executionSuccessful": report.status is not Status.UNKNOWN,
        "exitCode": report.exit_code,
        "toolExecutionNotifications": [{"level": "warning", "message": {"text": text}} for text in unknown],
    }


def _result(finding: ImageFinding, report: ImageReport) -> dict[str, Any]:
    path = finding.file or _USUAL
    region: dict[str, int] = {"startLine": finding.line or 1}
    if finding.end_line is not None and finding.end_line > region["startLine"]:
        region["endLine"] = finding.end_line
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": uri_of(path)}, "region": region}}
    if finding.file is None:
        location["logicalLocations"] = [{"fullyQualifiedName": report.subject, "kind": "image"}]
    lines = [f"{finding.title}.", *(fix.text for fix in finding.fix)]
    return {
        "ruleId": finding.code,
        "level": LEVELS[finding.severity],
        "message": {"text": "\n".join(lines)},
        "locations": [location],
        "partialFingerprints": {
            "gpuenv/1": fingerprint(f"{finding.code} {finding.file} {finding.machine} {finding.title}")
        },
        "properties": {
            "cause": finding.cause.value,
            "primary": finding.primary,
            "follows_from": finding.follows_from,
            "machine": finding.machine,
        },
    }
