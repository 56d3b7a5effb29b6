"""What a report could not tell. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.doctor.diagnose import UNKNOWN
from gpuenv.report.report import Report


def open_questions(report: Report) -> Iterator[tuple[str, str]]:
    """The checks that could not tell, and why."""
    for run in report.checks:
        if run.undecided:
            yield run.code, (run.reason or "").removeprefix(UNKNOWN)
