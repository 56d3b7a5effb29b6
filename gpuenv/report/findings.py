"""Findings, requirements and suppressions as texts, and the file and line of each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from gpuenv.doctor.checks.requirement import REQUIREMENT_CHECK
from gpuenv.model.finding import Finding, RequirementResult, RequirementStatus, SuppressionResult
from gpuenv.report.report import Report, crashed_checks, undetermined_checks
from gpuenv.report.text import allowance_text, evidence_text, fix_command, found_text, report_rows


def detail_lines(finding: Finding) -> Iterator[str]:
    """Evidence and fixes, one line each."""
    for entry in finding.evidence:
        yield f"- {evidence_text(entry)}"
    for fix in finding.fix:
        yield f"> {fix.text}"
        if line := fix_command(fix):
            yield f"  $ {line}"


def requirement_text(result: RequirementResult) -> str:
    """``met: gpu>=1: found 1``."""
    status = "not met" if result.status is RequirementStatus.VIOLATED else result.status.value
    return f"{status}: {result.text}: {found_text(result)}"


def title_text(finding: Finding) -> str:
    """The title as a sentence; that of the primary finding is marked ``Fix this first``."""
    return f"Fix this first: {finding.title}." if finding.primary else f"{finding.title}."


def suppression_text(entry: SuppressionResult) -> str:
    """``expired: GPU206 until 2027-05-31: replaced in May [gpuenv.toml: line 3]``."""
    return f"{entry.state.value}: {allowance_text(entry.allowance)}"


def inconclusive_texts(report: Report) -> list[str]:
    """The checks that are undetermined, and those that crashed, one line each."""
    texts = [f"{code} is undetermined: {reason}" for code, reason in undetermined_checks(report)]
    return texts + [f"{code} crashed: {reason}" for code, reason in crashed_checks(report)]


def fingerprint(text: str) -> str:
    """A digest that identifies a finding across runs."""
    return hashlib.sha256(text.encode()).hexdigest()


def requirement_of(finding: Finding, report: Report) -> RequirementResult | None:
    """The requirement that a finding reports as not met."""
    if finding.code != REQUIREMENT_CHECK:
        return None
    return next((r for r in report.requirements if finding.title.startswith(f"{r.text} is required")), None)


def machine_texts(report: Report) -> list[str]:
    """``driver: 550.54.15, up to CUDA 12.4 (nvml)``, one text per fact."""
    return [f"{row.label}: {row.text}" for row in report_rows(report)]


def wheel_text(report: Report) -> str:
    """The requirements to install, ``none fits`` or ``unknown``."""
    wheel = report.resolution.wheel
    if wheel is not None:
        return " ".join(wheel.requirements)
    return "unknown" if report.resolution.is_unknown else "none fits"


_DEFAULT_FILE = "pyproject.toml"


def finding_location(finding: Finding, report: Report) -> tuple[str, int]:
    """The line of the requirement that is not met; the default location for a finding about the machine."""
    result = requirement_of(finding, report)
    if result is not None and result.file is not None:
        return requirement_location(result)
    return default_location(report)


def default_location(report: Report) -> tuple[str, int]:
    """The first line of the file with the requirements, or of the file where they would be."""
    path = next((entry.file for entry in report.requirements if entry.file is not None), None)
    return _relative(path or _DEFAULT_FILE), 1


def requirement_location(result: RequirementResult) -> tuple[str, int]:
    """The line of a requirement; the default file for one of the command line."""
    return _relative(result.file or _DEFAULT_FILE), result.line or 1


def _relative(path: str) -> str:
    """A path relative to the repository; of a path outside it, the file name only."""
    is_outside = path.startswith(("/", "~", "..")) or ":" in path
    return path.rsplit("/", 1)[-1] if is_outside else path
