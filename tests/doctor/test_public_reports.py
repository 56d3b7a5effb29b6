"""Environments of public reports get the cause and the fix that settled their threads."""

from __future__ import annotations

import pytest

from gpuenv.doctor.diagnose import diagnose
from gpuenv.matrix.assume import assume
from gpuenv.matrix.resolve import resolve
from gpuenv.matrix.tables import Matrix
from gpuenv.model.finding import Severity
from gpuenv.model.snapshot import Snapshot
from tests.doctor.public_report_lines import REPORTED_LINES
from tests.doctor.public_reports import REPORTED

EVERY = {**REPORTED, **REPORTED_LINES}
FIRST = 3  # the removal of another line stands before what comes in its place


@pytest.mark.parametrize("source", EVERY)
def test_the_cause_and_the_fix_are_those_of_the_report(source: str, matrix: Matrix) -> None:
    reported = EVERY[source]
    snapshot = reported.change(assume(Snapshot(), reported.given, matrix))
    findings = diagnose(snapshot, matrix, resolve(snapshot, matrix), lambda: 0.0).findings
    result = [(finding.code, finding.cause.value, finding.severity.value, finding.primary) for finding in findings]
    primary = [finding for finding in findings if finding.primary]
    found = primary if reported.error else [entry for entry in findings if entry.severity is Severity.WARNING]
    named = [finding for finding in found if finding.cause.value == reported.cause]
    assert named, result
    assert bool(primary) is reported.error, result
    fixes = " ".join(f"{fix.text} {' '.join(fix.command or ())}" for fix in named[0].fix[:FIRST])
    assert reported.fix_text.lower() in fixes.lower(), fixes
