"""A report as SARIF (Static Analysis Results Interchange Format Version 2.1.0, OASIS Standard)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from gpuenv import __version__
from gpuenv.doctor.checks import all_checks
from gpuenv.doctor.registry import DocumentedCheck
from gpuenv.model.finding import Finding, RequirementStatus, Severity
from gpuenv.report.findings import (
    detail_lines,
    finding_location,
    fingerprint,
    inconclusive_texts,
    machine_texts,
    requirement_text,
    suppression_text,
    title_text,
    wheel_text,
)
from gpuenv.report.report import Report, Status, verdict

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def render(report: Report) -> str:
    """The log; ``report`` must be sanitized."""
    run = {
        "tool": tool_of(all_checks(), report.findings),
        "automationDetails": {"id": "gpuenv/"},
        "invocations": [_invocation(report)],
        "results": [_result(finding, report) for finding in report.findings],
        "properties": {
            "status": report.status.value,
            "machine": machine_texts(report),
            "requirements": [requirement_text(result) for result in report.requirements],
            "allowed": [suppression_text(entry) for entry in report.allow_list],
            "wheel": wheel_text(report),
            "retry_elsewhere": report.retry_elsewhere,
            "matrix_revision": report.matrix_revision,
        },
    }
    return log_of(run)


def log_of(run: dict[str, Any]) -> str:
    """The text of a log with one run."""
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def tool_of(checks: Iterable[DocumentedCheck], findings: Iterable[Finding]) -> dict[str, Any]:
    """This program, with the rules of a run's results: the checks with findings."""
    addresses = {finding.code: finding.docs_url for finding in findings}
    rules = {check.code: _rule(check, addresses[check.code]) for check in checks if check.code in addresses}
    driver = {
        "name": "gpuenv",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": list(rules.values()),
    }
    return {"driver": driver}


def _rule(check: DocumentedCheck, address: str | None) -> dict[str, Any]:
    """A check as a SARIF rule."""
    sections = check.sections
    text = "\n\n".join(f"{name}: {section}" for name, section in sections.items())
    return {
        "id": check.code,
        "name": "".join(part.title() for part in check.causes[0].value.split("-")),
        "shortDescription": {"text": check.title},
        "fullDescription": {"text": next(iter(sections.values()), check.title)},
        "help": {"text": text},
        **({"helpUri": address} if address else {}),
        "properties": {"tags": [cause.value for cause in check.causes]},
    }


def _result(finding: Finding, report: Report) -> dict[str, Any]:
    path, line = finding_location(finding, report)
    logical = [{"fullyQualifiedName": fact, "kind": "fact"} for fact in dict.fromkeys(e.fact for e in finding.evidence)]
    location = {"physicalLocation": {"artifactLocation": {"uri": uri_of(path)}, "region": {"startLine": line}}}
    return {
        "ruleId": finding.code,
        "level": LEVELS[finding.severity],
        "message": {"text": "\n".join([title_text(finding), *detail_lines(finding)])},
        "locations": [location | ({"logicalLocations": logical} if logical else {})],
        "partialFingerprints": {"gpuenv/1": fingerprint(f"{finding.code} {finding.cause} {finding.title}")},
        "properties": {
            "cause": finding.cause.value,
            "primary": finding.primary,
            "follows_from": finding.follows_from,
        },
        "suppressions": _suppressions(finding),
    }


def _suppressions(finding: Finding) -> list[dict[str, Any]]:
    """The suppression by the configuration (section 3.35: external means in another file than the one analysed)."""
    if finding.allowed is None:
        return []
    justification = f"{finding.allowed.reason} (until {finding.allowed.expires}, {finding.allowed.source})"
    return [{"kind": "external", "justification": justification}]


def uri_of(path: str) -> str:
    """A path as a URI."""
    return "".join(
        c if c.isascii() and (c.isalnum() or c in "-._~/") else "".join(f"%{byte:02X}" for byte in c.encode())
        for c in path
    )


def _invocation(report: Report) -> dict[str, Any]:
    notices = inconclusive_texts(report)
    notices += [requirement_text(entry) for entry in report.requirements if entry.status is RequirementStatus.UNKNOWN]
    return {
        "executionSuccessful": report.status is not Status.UNKNOWN,
        "exitCode": report.exit_code,
        "exitCodeDescription": " ".join(verdict(report)),
        "toolExecutionNotifications": [{"level": "warning", "message": {"text": text}} for text in notices],
    }
