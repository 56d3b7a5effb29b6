"""The doctor's report: its record, its verdict and its exit code."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from gpuenv import __version__
from gpuenv.doctor.diagnose import DEFAULT_OPTIONS, UNKNOWN, Diagnosis, DiagnosisOptions, suppression_results
from gpuenv.doctor.registry import Component, find_check
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.finding import (
    CheckRun,
    CheckStatus,
    Finding,
    Repair,
    RequirementResult,
    RequirementStatus,
    Severity,
    SuppressionResult,
)
from gpuenv.model.resolution import Resolution
from gpuenv.model.smoke import SmokeResult, TestStatus
from gpuenv.model.snapshot import Snapshot

SCHEMA = "gpuenv.report/1"


class Status(str, Enum):
    """Fit, fit with warnings, unfit, or not to be told."""

    FIT = "fit"
    DEGRADED = "degraded"
    UNFIT = "unfit"
    UNKNOWN = "unknown"


class Report(NamedTuple):
    """What the doctor says, whole.

    Attributes:
        status: fit, degraded, unfit or unknown.
        exit_code: of the command.
        findings: the one to cure first is primary, and stands first.
        checks: every check, with how it ended.
        resolution: what fits this machine.
        smoke: null unless the GPU tests were asked for.
        snapshot: what was read.
        duration: seconds.
        gpuenv_version: of this program.
        matrix_revision: of the matrix.
        requirements: those of preflight.
        retry_elsewhere: why another host should be tried, where the exit code asks for that.
        allow_list: the findings that the configuration accepts, and what became of each entry.
        repair: what was done about the findings, where that was asked for.
        schema: name and major version of the form.
    """

    status: Status
    exit_code: int
    findings: tuple[Finding, ...]
    checks: tuple[CheckRun, ...]
    resolution: Resolution
    smoke: SmokeResult | None
    snapshot: Snapshot
    duration: float
    gpuenv_version: str
    matrix_revision: str
    requirements: tuple[RequirementResult, ...] = ()
    retry_elsewhere: str | None = None
    allow_list: tuple[SuppressionResult, ...] = ()
    repair: Repair | None = None
    schema: str = SCHEMA

    @property
    def lacks_gpu(self) -> bool:
        """Whether it was found that there is no NVIDIA GPU."""
        found_by = (find_check(finding.code) for finding in self.findings)
        return any(check is not None and check.missing is Component.GPU for check in found_by)


def make_report(
    diagnosis: Diagnosis,
    resolution: Resolution,
    snapshot: Snapshot,
    duration: float,
    options: DiagnosisOptions = DEFAULT_OPTIONS,
    smoke: SmokeResult | None = None,
) -> Report:
    """Puts a report together and judges it.

    Args:
        diagnosis: the findings, and how each check went.
        resolution: what fits.
        snapshot: the machine.
        duration: seconds that it took.
        options: what the caller set.
        smoke: the GPU tests, where they ran.
    """
    status = judge(diagnosis, snapshot, options, smoke)
    if any(entry.status is RequirementStatus.UNKNOWN for entry in options.requirements) and status is not Status.UNFIT:
        status = Status.UNKNOWN
    codes = {Status.UNFIT: ExitCode.UNFIT, Status.UNKNOWN: ExitCode.COULD_NOT_CHECK}
    return Report(
        status=status,
        exit_code=int(codes.get(status, ExitCode.OK)),
        findings=diagnosis.findings,
        checks=diagnosis.checks,
        resolution=resolution,
        smoke=smoke,
        snapshot=snapshot,
        duration=duration,
        gpuenv_version=__version__,
        matrix_revision=resolution.matrix_revision,
        requirements=options.requirements,
        allow_list=suppression_results(options.suppressions, diagnosis.findings, options.day),
    )


def judge(
    diagnosis: Diagnosis,
    snapshot: Snapshot,
    options: DiagnosisOptions = DEFAULT_OPTIONS,
    smoke: SmokeResult | None = None,
) -> Status:
    """Unfit with any error; fit only where all that decides is known and good; otherwise unknown.

    GPU tests that passed are a proof by themselves; those that were asked for and proved nothing leave it open.
    """
    severities = {finding.severity for finding in diagnosis.findings}
    if Severity.ERROR in severities:
        return Status.UNFIT
    if any(run.status is CheckStatus.CRASHED for run in diagnosis.checks):
        return Status.UNKNOWN
    if not options.no_gpu and not _is_decided(diagnosis, snapshot, options, smoke):
        return Status.UNKNOWN
    return Status.DEGRADED if Severity.WARNING in severities else Status.FIT


def _is_decided(diagnosis: Diagnosis, snapshot: Snapshot, options: DiagnosisOptions, smoke: SmokeResult | None) -> bool:
    undecided = [check for run in diagnosis.checks if run.undecided and (check := find_check(run.code))]
    if any(check.reads_gpu_tests for check in undecided):  # the GPU tests proved nothing
        return False
    if _passed(smoke):
        return True
    decisive = any(check.decisive or (check.decisive_if_assumed and not _is_shown(snapshot)) for check in undecided)
    return is_proven(snapshot, expect_no_cupy=options.no_cupy) and not decisive


def _passed(smoke: SmokeResult | None) -> bool:
    """Whether a test passed, which nothing but a working GPU and CuPy can bring about."""
    return smoke is not None and any(test.status is TestStatus.PASSED for test in smoke.tests)


def is_proven(snapshot: Snapshot, smoke: SmokeResult | None = None, *, expect_no_cupy: bool = False) -> bool:
    """Whether CUDA was initialised and showed a GPU, or one was told to be assumed; and an expected CuPy is there.

    Or whether the GPU tests have shown it.
    """
    if _passed(smoke):
        return True
    told = "driver.version" in snapshot.assumed and snapshot.driver.version.known and bool(snapshot.gpus)
    started = snapshot.driver.cuda_init.value == 0
    with_cupy = expect_no_cupy or bool(snapshot.target.cupy)
    return (told or started) and bool(snapshot.visible_count.value) and with_cupy


def _is_shown(snapshot: Snapshot) -> bool:
    """Whether an interpreter itself has shown the CuPy in its environment; else it was assumed, or somebody told it."""
    return not snapshot.target.cupy or (snapshot.target.executable.known and "target.cupy" not in snapshot.assumed)


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


def undecided(report: Report) -> list[tuple[str, str]]:
    """Both of these."""
    return [*open_questions(report), *crashed(report)]


_VERDICTS = {
    Status.FIT: "FIT",
    Status.DEGRADED: "FIT, with warnings",
    Status.UNKNOWN: "UNKNOWN",
    Status.UNFIT: "UNFIT",
}


def verdict(report: Report) -> tuple[str, str]:
    """``("UNFIT", "This machine has no NVIDIA GPU.")``."""
    return _VERDICTS[report.status], _sentence(report)


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
