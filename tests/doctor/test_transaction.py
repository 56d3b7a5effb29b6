"""An interrupted install is named first, and no other fix changes the packages before it is undone."""

from __future__ import annotations

import pytest

from gpuenv.doctor.checks import all_checks
from gpuenv.doctor.diagnose import DiagnosisOptions, diagnose
from gpuenv.matrix.assume import assume
from gpuenv.matrix.resolve import resolve
from gpuenv.model.finding import CheckStatus
from gpuenv.model.reading import known
from gpuenv.model.snapshot import OpenTransaction, Snapshot
from gpuenv.report.findings import wheel_text
from gpuenv.report.report import make_report
from gpuenv.report.text import report_lines
from tests.doctor.installed_target import healthy, with_target
from tests.support.diagnosis import diagnosis_of
from tests.support.matrix import MATRIX

__all__ = ["healthy"]


@pytest.mark.parametrize("step", ["install", "rollback"])
def test_an_interrupted_transaction_comes_first_and_its_fix_is_the_only_one(healthy: Snapshot, step: str) -> None:
    opened = known(OpenTransaction("0002", step, "2026-12-01T08:00:00+00:00"), "the journals")
    snapshot = assume(with_target(healthy, open_transaction=opened, cupy=()), ["gpu=none", "driver=none"], MATRIX)
    options = DiagnosisOptions(python="/venv")
    first, *others = diagnosis_of(snapshot, options).findings
    assert (first.code, first.primary) == ("ENV403", True)
    assert "0002" in first.title
    assert [fix.command for fix in first.fix] == [("gpuenv", "rollback", "--python", "/venv")]
    assert others, "the GPU is missing, too"
    commands = [fix.command for finding in others for fix in finding.fix if fix.command]
    assert not [command for command in commands if {"pip", "uv", "conda", "install"} & {*command}]


def test_the_report_names_no_wheel_for_a_half_changed_environment(healthy: Snapshot) -> None:
    opened = known(OpenTransaction("0002", "install", "2026-12-01T08:00:00+00:00"), "the journals")
    snapshot = with_target(healthy, open_transaction=opened)
    resolution = resolve(snapshot, MATRIX)
    assert resolution.wheel is not None
    report = make_report(diagnose(snapshot, MATRIX, lambda: 0.0, resolution=resolution), snapshot, 0.0)
    found = report.resolution
    assert (found.wheel, found.conda, found.image, found.matrix_revision) == (None, None, None, MATRIX.revision)
    reason = "Unknown until install 0002 is undone: gpuenv rollback"
    assert found.explanation == reason
    text = "\n".join(line.text for line in report_lines(report))
    assert f"The right wheel\n  {reason}\n" in text
    assert resolution.wheel.distribution not in text.partition("The right wheel")[2]
    assert wheel_text(report) == "unknown"


def test_every_check_of_the_packages_waits_for_the_interrupted_transaction(healthy: Snapshot) -> None:
    opened = known(OpenTransaction("0001", "install", "2026-12-01T08:00:00+00:00"), "the journals")
    snapshot = with_target(healthy, open_transaction=opened)
    runs = {run.code: run for run in diagnosis_of(snapshot).checks}
    waiting = {check.code for check in all_checks() if check.concerns_target or check.repair} - {"ENV403"}
    assert {runs[code].status for code in waiting} == {CheckStatus.SKIPPED}
    assert {runs[code].reason for code in waiting} == {"ENV403 comes first"}
