"""A run of ``gpuenv smoke``: its result, its baseline and its report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gpuenv.cli.command_errors import announce, usage_errors
from gpuenv.cli.gpu_tests import run_tests, smoke_target, with_causes
from gpuenv.cli.output import emit_json
from gpuenv.cli.smoke_baseline import compared, rejected
from gpuenv.cli.sources import MachineSource, find_target, get_machine_and_matrix
from gpuenv.clock import now
from gpuenv.doctor.checks import all_checks
from gpuenv.doctor.diagnose import DiagnosisOptions, apply_fail_on, diagnose
from gpuenv.matrix.tables import Matrix
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.smoke import SmokeResult
from gpuenv.model.snapshot import Snapshot
from gpuenv.report.report import Report, make_report
from gpuenv.smoke.session import SmokeInterrupted, UnusableTarget, skip_all
from gpuenv.smoke.tasks import SmokeOptions


class SmokeRun(NamedTuple):
    """The result of the tests, with the machine and the matrix."""

    result: SmokeResult
    snapshot: Snapshot
    matrix: Matrix
    unusable: UnusableTarget | None = None  # why the target environment cannot run any test


def run_selection(selection: SmokeOptions, source: MachineSource, baseline: SmokeResult | None) -> SmokeRun:
    """Runs the tests; skips each with the reason if the target environment cannot run any.

    An interrupted run returns the results so far.

    Raises:
        CommandError: when the matrix cannot be read, or ``--gpu`` names a GPU that does not exist.
    """
    interpreter = find_target(source.python) or ""
    started = time.monotonic()
    snapshot, matrix = get_machine_and_matrix(source, None)
    target = smoke_target(interpreter, source, snapshot, matrix, started)
    try:
        with usage_errors(ValueError):  # --gpu matches none
            result = run_tests(selection, target, matrix)
    except UnusableTarget as error:
        skipped = skip_all(selection, target, str(error), now())
        return SmokeRun(skipped._replace(exit_code=int(ExitCode.TARGET_UNUSABLE)), snapshot, matrix, error)
    except SmokeInterrupted as stop:
        result = with_causes(stop.result)
    return SmokeRun(compared(result, baseline, selection.minimums, target.peaks), snapshot, matrix)


def write_baseline(result: SmokeResult, path: Path, *, redacted: bool) -> None:
    """Writes a result as a baseline, unless the run was interrupted or measured nothing."""
    interrupted = result.exit_code == ExitCode.INTERRUPTED
    if interrupted or not any(test.measured for test in result.tests):
        why = "the tests were interrupted" if interrupted else "nothing was measured"
        announce(f"{path} is not written: {why}")
        return
    emit_json(result, path, redacted=redacted)


def smoke_report(run: SmokeRun, python: str | None, docs_address: str | None) -> Report:
    """A report with the findings of the tests only."""
    result, snapshot, matrix = run.result, run.snapshot, run.matrix
    about_tests = {check.code for check in all_checks() if check.reads_gpu_tests}
    options = DiagnosisOptions(
        excluded=frozenset(check.code for check in all_checks() if not check.reads_gpu_tests), python=python
    )
    diagnosis = diagnose(snapshot, matrix, time.monotonic, options, result)
    diagnosis = diagnosis._replace(checks=tuple(run for run in diagnosis.checks if run.code in about_tests))
    report = make_report(diagnosis, snapshot, result.duration, options, result, docs_address)
    return report._replace(exit_code=result.exit_code)


def with_fail_on(report: Report, names: Sequence[str]) -> Report:
    """Turns the findings with these names into errors, and rejects the result for them."""
    findings = tuple(apply_fail_on(finding, names) for finding in report.findings)
    raised = [new for new, former in zip(findings, report.findings, strict=True) if new is not former]
    if not raised or report.smoke is None:
        return report
    result = rejected(report.smoke, tuple(f"{entry.code} {entry.cause.value}: {entry.title}" for entry in raised))
    return report._replace(findings=findings, smoke=result, exit_code=result.exit_code)
