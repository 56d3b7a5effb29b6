"""What a report could not tell, and which checks did not come to their end. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.doctor.diagnose import UNKNOWN
from gpuenv.model.finding import CheckStatus
from gpuenv.report.report import Report


def open_questions(report: Report) -> Iterator[tuple[str, str]]:
    """The checks that could not tell, and why."""
    for run in report.checks:
        if run.undecided:
            yield run.code, (run.reason or "").removeprefix(UNKNOWN)


def crashed(report: Report) -> Iterator[tuple[str, str]]:
    """The checks that did not come to their end, and how they ended."""
    for run in report.checks:
        if run.status is CheckStatus.CRASHED:
            yield run.code, run.reason or ""
