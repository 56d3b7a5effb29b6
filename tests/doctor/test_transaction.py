"""An interrupted install is named first, and no other fix changes the packages before it is undone."""

from __future__ import annotations

import pytest

from gpuenv.doctor.diagnose import DiagnosisOptions, diagnose
from gpuenv.doctor.registry import all_checks
from gpuenv.matrix.assume import assume
from gpuenv.matrix.resolve import resolve
from gpuenv.matrix.tables import Matrix
from gpuenv.model.finding import CheckStatus
from gpuenv.model.reading import known
from gpuenv.model.snapshot import OpenTransaction, Snapshot
from tests.doctor.installed_target import healthy, with_target

__all__ = ["healthy"]


@pytest.mark.parametrize("step", ["install", "rollback"])
def test_an_interrupted_transaction_comes_first_and_its_fix_is_the_only_one(
    matrix: Matrix, healthy: Snapshot, step: str
) -> None:
    opened = known(OpenTransaction("0002", step, "2026-12-01T08:00:00+00:00"), "the journals")
    snapshot = assume(with_target(healthy, open_transaction=opened, cupy=()), ["gpu=none", "driver=none"], matrix)
    options = DiagnosisOptions(python="/venv")
    first, *others = diagnose(snapshot, matrix, resolve(snapshot, matrix), lambda: 0.0, options).findings
    assert (first.code, first.primary) == ("ENV403", True)
    assert "0002" in first.title
    assert [fix.command for fix in first.fix] == [("gpuenv", "rollback", "--python", "/venv")]
    assert others, "the GPU is missing, too"
    commands = [fix.command for finding in others for fix in finding.fix if fix.command]
    assert not [command for command in commands if {"pip", "uv", "conda", "install"} & {*command}]


def test_every_check_of_the_packages_waits_for_the_interrupted_transaction(matrix: Matrix, healthy: Snapshot) -> None:
    opened = known(OpenTransaction("0001", "install", "2026-12-01T08:00:00+00:00"), "the journals")
    snapshot = with_target(healthy, open_transaction=opened)
    runs = {run.code: run for run in diagnose(snapshot, matrix, resolve(snapshot, matrix), lambda: 0.0).checks}
    waiting = {check.code for check in all_checks() if check.concerns_target or check.repair} - {"ENV403"}
    assert {runs[code].status for code in waiting} == {CheckStatus.SKIPPED}
    assert {runs[code].reason for code in waiting} == {"ENV403 comes first"}
