"""The verdict in one word and one sentence, which every form of a report begins with. Pure."""

from __future__ import annotations

from gpuenv.model.finding import Finding
from gpuenv.model.requirement import RequirementStatus
from gpuenv.report.report import Report, Status, is_proven

_WORDS = {
    Status.FIT: "FIT",
    Status.DEGRADED: "FIT, with warnings",
    Status.UNKNOWN: "UNKNOWN",
    Status.UNFIT: "UNFIT",
}


def verdict(report: Report) -> tuple[str, str]:
    """``("UNFIT", "This machine has no NVIDIA GPU.")``."""
    return _WORDS[report.status], _sentence(report)


def primary(report: Report) -> Finding | None:
    """The finding to cure first."""
    return next((finding for finding in report.findings if finding.primary), None)


def _sentence(report: Report) -> str:
    first = primary(report)
    if first is not None:
        return f"{first.title}."
    unknown = [entry.text for entry in report.requirements if entry.status is RequirementStatus.UNKNOWN]
    proven = is_proven(report.snapshot, report.smoke)
    if unknown and (proven or is_proven(report.snapshot, expect_no_cupy=True)):
        return f"Whether the machine has {', '.join(unknown)} could not be told."
    if report.status is Status.UNKNOWN:
        return "Whether CuPy can use a GPU here could not be told."
    if proven:
        return "CuPy can use the GPU here."
    if is_proven(report.snapshot, expect_no_cupy=True):
        return "CUDA programs can use the GPU here; no CuPy is expected."
    return "No GPU is expected here, and nothing else is wrong."
