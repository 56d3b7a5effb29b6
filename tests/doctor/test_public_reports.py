"""Environments of public reports get the cause and the fix on which their threads settled."""

from __future__ import annotations

import pytest

from gpuenv.matrix.assume import assume
from gpuenv.model.finding import Severity
from gpuenv.model.snapshot import Snapshot
from gpuenv.report.text import fix_command
from tests.doctor.public_report_lines import REPORTED_LINES
from tests.doctor.public_reports import REPORTED
from tests.support.diagnosis import diagnosis_of
from tests.support.matrix import MATRIX

ALL_REPORTS = {**REPORTED, **REPORTED_LINES}
FIRST_FIXES = 3  # the removal of another line precedes the installation


@pytest.mark.parametrize("source", ALL_REPORTS)
def test_the_cause_and_the_fix_are_those_of_the_report(source: str) -> None:
    reported = ALL_REPORTS[source]
    snapshot = reported.change(assume(Snapshot(), reported.facts, MATRIX))
    findings = diagnosis_of(snapshot).findings
    result = [(finding.code, finding.cause.value, finding.severity.value, finding.primary) for finding in findings]
    primary = [finding for finding in findings if finding.primary]
    candidates = primary if reported.error else [entry for entry in findings if entry.severity is Severity.WARNING]
    named = [finding for finding in candidates if finding.cause.value == reported.cause]
    assert named, result
    assert bool(primary) is reported.error, result
    fixes = " ".join(f"{fix.text} {fix_command(fix)}" for fix in named[0].fix[:FIRST_FIXES])
    assert reported.fix_text.lower() in fixes.lower(), fixes
