"""Findings, requirements and suppressions in words, and the file and line each belongs to."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from gpuenv.doctor.checks.requirement import REQUIREMENT_CHECK
from gpuenv.model.finding import Finding, RequirementResult, RequirementStatus, SuppressionResult
from gpuenv.report.report import Report, crashed, open_questions
from gpuenv.report.text import command_text, evidence_text, machine_rows


def detail_lines(finding: Finding) -> Iterator[str]:
    """Evidence and cures, one line each."""
    for entry in finding.evidence:
        yield f"- {evidence_text(entry)}"
    for fix in finding.fix:
        yield f"> {fix.text}"
        if fix.command:
            yield f"  $ {command_text(fix.command)}"


def requirement_text(result: RequirementResult) -> str:
    """``met: gpu>=1: found 1``."""
    told = f"cannot tell {result.missing}" if result.missing else f"found {result.found}"
    word = "not met" if result.status is RequirementStatus.VIOLATED else result.status.value
    return f"{word}: {result.text}: {told}"


def allowance_text(entry: SuppressionResult) -> str:
    """``expired: GPU206 until 2027-05-31: replaced in May [gpuenv.toml: line 3]``."""
    told = entry.allowance
    return f"{entry.state.value}: {told.code} until {told.expires}: {told.reason} [{told.source}]"


def undecided_texts(report: Report) -> list[str]:
    """The checks that could not tell, and those that crashed, one line each."""
    texts = [f"{code} could not tell: {why}" for code, why in open_questions(report)]
    return texts + [f"{code} did not come to its end: {why}" for code, why in crashed(report)]


def fingerprint(text: str) -> str:
    """What tells one finding from another, run after run."""
    return hashlib.sha256(text.encode()).hexdigest()


def requirement_of(finding: Finding, report: Report) -> RequirementResult | None:
    """The requirement that a finding is about."""
    if finding.code != REQUIREMENT_CHECK:
        return None
    return next((r for r in report.requirements if finding.title.startswith(f"{r.text} is required")), None)


def machine_texts(report: Report) -> list[str]:
    """``driver: 550.54.15, up to CUDA 12.4 (nvml)``, one line a fact."""
    return [f"{label}: {text}" for label, text in machine_rows(report.snapshot)]


def wheel_text(report: Report) -> str:
    """What would be installed, or that nothing fits."""
    wheel = report.resolution.wheel
    return " ".join(wheel.requirements) if wheel else "none fits"


_USUAL = "pyproject.toml"


def anchor(finding: Finding, report: Report) -> tuple[str, int]:
    """The requirement's own line; what is the machine's fault stands in the first line of the file that asks for it."""
    result = requirement_of(finding, report)
    if result is not None and result.file is not None:
        return requirement_anchor(result)
    return usual_anchor(report)


def usual_anchor(report: Report) -> tuple[str, int]:
    """The first line of the file that asks for something, or would."""
    asking = next((entry.file for entry in report.requirements if entry.file is not None), None)
    return _relative(asking or _USUAL), 1


def requirement_anchor(result: RequirementResult) -> tuple[str, int]:
    """The line in which a requirement stands; the usual file for one of the command line."""
    return _relative(result.file or _USUAL), result.line or 1


def _relative(path: str) -> str:
    """A path below the repository; another one is named by its last part."""
    outside = path.startswith(("/", "~", "..")) or ":" in path
    return path.rsplit("/", 1)[-1] if outside else path
