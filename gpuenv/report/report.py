"""The doctor's report: its record, its verdict and its exit code."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from gpuenv import __version__
from gpuenv.doctor.checks import find_check
from gpuenv.doctor.diagnose import DEFAULT_OPTIONS, UNKNOWN, Diagnosis, DiagnosisOptions, suppression_results
from gpuenv.doctor.registry import Component
from gpuenv.model.codec import to_json
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
from gpuenv.model.job import Job
from gpuenv.model.notebook import Printer, text_html
from gpuenv.model.resolution import Resolution
from gpuenv.model.smoke import SmokeResult, TestStatus
from gpuenv.model.snapshot import Snapshot
from gpuenv.report.docs_site import with_docs_url

SCHEMA = "gpuenv.report/1"


class Status(str, Enum):
    """Fit, fit with warnings, unfit, or undetermined."""

    FIT = "fit"
    DEGRADED = "degraded"
    UNFIT = "unfit"
    UNKNOWN = "unknown"


class Report(NamedTuple):
    """The doctor's complete report.

    Attributes:
        status: fit, degraded, unfit or unknown.
        exit_code: of the command.
        findings: the one to fix first is primary, and comes first.
        checks: every check, with its outcome.
        resolution: what fits this machine; unknown while an install is interrupted.
        smoke: the GPU tests; null unless requested.
        snapshot: the facts of the machine.
        duration: seconds.
        gpuenv_version: of this program.
        matrix_revision: of the matrix.
        requirements: the requirements of preflight, and whether each is met.
        retry_elsewhere: why to try another host; null unless the exit code is 75.
        allow_list: the suppressions of the configuration, and the state of each.
        repair: what ``--fix`` did about the findings, if requested.
        host_only: whether only the driver, GPUs and container were judged.
        host_name: name of the probed machine, from the scheduler, else its host name; null for another machine.
        jobs: the jobs of schedulers and CI systems in which gpuenv ran.
        schema: name and major version of the schema.
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
    host_only: bool = False
    host_name: str | None = None
    jobs: tuple[Job, ...] = ()
    schema: str = SCHEMA

    def to_json(self) -> str:
        """The report as JSON; nothing is redacted."""
        return to_json(self)

    def __str__(self) -> str:
        from gpuenv.report.text import report_lines  # noqa: PLC0415 - it imports this module

        return "\n".join(line.text for line in report_lines(self))

    def _repr_html_(self) -> str:
        return text_html(str(self))

    def _repr_pretty_(self, printer: Printer, _cycle: object) -> None:
        printer.text(str(self))

    @property
    def lacks_gpu(self) -> bool:
        """Whether a finding says that there is no NVIDIA GPU."""
        checks = (find_check(finding.code) for finding in self.findings)
        return any(check is not None and check.missing is Component.GPU for check in checks)


def make_report(
    diagnosis: Diagnosis,
    snapshot: Snapshot,
    duration: float,
    options: DiagnosisOptions = DEFAULT_OPTIONS,
    smoke: SmokeResult | None = None,
    docs_address: str | None = None,
) -> Report:
    """Assembles a report with its status and exit code; ``docs_address`` is that of the documentation site."""
    resolution, interrupted = diagnosis.resolution, snapshot.target.open_transaction.value
    if interrupted is not None:  # the environment is half changed
        why = f"Unknown until {interrupted.label} is undone: gpuenv rollback"
        resolution = Resolution(None, None, None, (), (), None, (), why, resolution.matrix_revision)
    status = judge(diagnosis, snapshot, options, smoke)
    if any(entry.status is RequirementStatus.UNKNOWN for entry in options.requirements) and status is not Status.UNFIT:
        status = Status.UNKNOWN
    codes = {Status.UNFIT: ExitCode.UNFIT, Status.UNKNOWN: ExitCode.COULD_NOT_CHECK}
    return Report(
        status=status,
        exit_code=int(codes.get(status, ExitCode.OK)),
        findings=with_docs_url(diagnosis.findings, docs_address),
        checks=diagnosis.checks,
        resolution=resolution,
        smoke=smoke,
        snapshot=snapshot,
        duration=duration,
        gpuenv_version=__version__,
        matrix_revision=resolution.matrix_revision,
        requirements=options.requirements,
        allow_list=suppression_results(options.suppressions, diagnosis.findings, options.day),
        host_only=options.host_only,
    )


def judge(
    diagnosis: Diagnosis,
    snapshot: Snapshot,
    options: DiagnosisOptions = DEFAULT_OPTIONS,
    smoke: SmokeResult | None = None,
) -> Status:
    """Unfit with any error; fit only if every decisive fact is known and good; otherwise unknown.

    A passed GPU test is enough; if GPU tests were requested and none passed, the status stays unknown.
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
    checks = [check for run in diagnosis.checks if run.undecided and (check := find_check(run.code))]
    if any(check.reads_gpu_tests for check in checks):  # no GPU test passed
        return False
    if _has_passed(smoke):
        return True
    decisive = any(check.decisive or (check.decisive_if_assumed and not _is_observed(snapshot)) for check in checks)
    return is_gpu_proven(snapshot, expect_no_cupy=options.no_cupy or options.host_only) and not decisive


def _has_passed(smoke: SmokeResult | None) -> bool:
    """Whether a test passed, which takes a working GPU and CuPy."""
    return smoke is not None and any(test.status is TestStatus.PASSED for test in smoke.tests)


def is_gpu_proven(snapshot: Snapshot, smoke: SmokeResult | None = None, *, expect_no_cupy: bool = False) -> bool:
    """Whether a GPU test passed, or CUDA is initialised (or assumed), sees a GPU, and CuPy is installed if expected."""
    if _has_passed(smoke):
        return True
    is_assumed = "driver.version" in snapshot.assumed and snapshot.driver.version.known and bool(snapshot.gpus)
    is_initialised = snapshot.driver.cuda_init.value == 0
    has_cupy = expect_no_cupy or bool(snapshot.target.cupy)
    return (is_assumed or is_initialised) and bool(snapshot.visible_count.value) and has_cupy


def _is_observed(snapshot: Snapshot) -> bool:
    """Whether the target's interpreter reported its CuPy; else CuPy is assumed or pasted."""
    return not snapshot.target.cupy or (snapshot.target.executable.known and "target.cupy" not in snapshot.assumed)


def undetermined_checks(report: Report) -> Iterator[tuple[str, str]]:
    """Code and reason of each check that lacks a fact."""
    for run in report.checks:
        if run.undecided:
            yield run.code, (run.reason or "").removeprefix(UNKNOWN)


def crashed_checks(report: Report) -> Iterator[tuple[str, str]]:
    """Code and reason of each check that crashed."""
    for run in report.checks:
        if run.status is CheckStatus.CRASHED:
            yield run.code, run.reason or ""


def inconclusive_checks(report: Report) -> list[tuple[str, str]]:
    """Code and reason of each check that is undetermined or crashed."""
    return [*undetermined_checks(report), *crashed_checks(report)]


def deciding_command(report: Report) -> str | None:
    """The command that decides an unknown status of this machine, by computing with its CuPy; None if none does."""
    executable = report.snapshot.target.executable
    is_here = report.host_name is not None and not report.requirements
    is_computable = is_here and report.snapshot.target.cupy and report.snapshot.gpus
    if report.status is not Status.UNKNOWN or report.host_only or report.smoke is not None or not is_computable:
        return None
    import shlex  # noqa: PLC0415 - needed only for an unknown status

    option = f" --python {shlex.quote(executable.value or '')}" if executable.source == "--python" else ""
    return f"gpuenv smoke{option}"


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
    """The finding to fix first."""
    return next((finding for finding in report.findings if finding.primary), None)


def _sentence(report: Report) -> str:
    first = primary(report)
    if first is not None:
        return f"{first.title}."
    unknown = [entry.text for entry in report.requirements if entry.status is RequirementStatus.UNKNOWN]
    is_proven = is_gpu_proven(report.snapshot, report.smoke) and not report.host_only
    if unknown and (is_proven or is_gpu_proven(report.snapshot, expect_no_cupy=True)):
        return f"Whether the machine meets {', '.join(unknown)} is undetermined."
    if report.status is Status.UNKNOWN:
        return f"Whether {'CUDA programs' if report.host_only else 'CuPy'} can use a GPU here is undetermined."
    if is_proven:
        return "CuPy can use the GPU here."
    if is_gpu_proven(report.snapshot, expect_no_cupy=True):
        suffix = "" if report.host_only else "; no CuPy is expected"
        return f"CUDA programs can use the GPU here{suffix}."
    return "No GPU is expected here, and nothing else is wrong."
