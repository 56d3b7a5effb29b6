"""``gpuenv preflight``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.clock import today
from gpuenv.cli.errors import CommandError, announce
from gpuenv.cli.inputs import MachineSource
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.smoke_level import SmokeLevel

if TYPE_CHECKING:
    from gpuenv.cli.gpu_tests import Proof
    from gpuenv.doctor.diagnose import DiagnosisOptions
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.preflight.config import Config
    from gpuenv.preflight.requirement import Requirement
    from gpuenv.report.report import Report

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 15.0  # seconds between two looks at a busy GPU
_SLACK = 1.5  # how much longer than their level's budget GPU tests may take, if nothing else is said


class PreflightOptions(NamedTuple):
    """The options of ``gpuenv preflight``."""

    require: Annotated[
        Optional[list[str]],
        typer.Option(
            "--require", metavar="REQUIREMENT", help="What must hold, such as 'gpu>=1' or 'cc>=8.0'. Repeatable."
        ),
    ] = None
    config: options.ConfigFile = None
    no_config: options.NoConfig = False
    list_requirements: Annotated[
        bool, typer.Option("--list-requirements", help="Print the grammar and every key of requirements, and end.")
    ] = False
    retry_elsewhere: Annotated[
        Optional[bool],
        typer.Option("--retry-elsewhere/--no-retry-elsewhere", help="End in 75 where this host is bad or busy."),
    ] = None
    wait: Annotated[
        Optional[float],
        typer.Option("--wait", metavar="SECONDS", min=0, max=86400, help="Wait that long for a busy GPU."),
    ] = None
    smoke: options.Smoke = None
    expect_no_gpu: Annotated[
        bool, typer.Option("--expect-no-gpu", help="No GPU may be here: the same as --require gpu==0.")
    ] = False
    python: options.Python = None
    snapshot: options.SnapshotFile = None
    assume: options.Assume = None
    no_probe: options.NoProbe = False
    matrix: options.MatrixFile = None
    formats: options.Formats = None
    output: options.OutputFile = None
    history: options.History = None
    offline: options.Offline = False
    no_color: options.NoColor = False
    verbose: options.Verbose = False
    timeout: Annotated[
        Optional[float],
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=options.SHORTEST_TIMEOUT,
            max=options.LONGEST_TIMEOUT,
            help="The time budget, waiting aside. [30; more with --smoke]",
        ),
    ] = None
    redact: options.Redact = True
    driver_root: options.DriverRoot = "/"


@options.takes(PreflightOptions)
def preflight(opts: PreflightOptions) -> None:
    """The gate of a CI job: doctor, requirements and GPU tests.

    In a time budget, and with a report in the form of every CI system.

    Exit code: 0 fit and every requirement met, 1 unfit, 8 could not be told; with --retry-elsewhere, 75 for a host that
    is bad or busy.
    """
    from gpuenv.cli.diagnosis import allowed, examine, read_settings, show_phases
    from gpuenv.cli.output import NAMES, OWN, How, check_places, emit_record, emit_report, read_formats, read_history

    wanted = read_formats(opts.formats, opts.output, OWN if opts.list_requirements else NAMES)
    settings = read_settings(opts.config, no_config=opts.no_config)
    budget = opts.timeout if opts.timeout is not None else settings.timeout
    subject = MachineSource(
        opts.python,
        opts.snapshot,
        opts.assume or (),
        opts.no_probe,
        options.TIMEOUT if budget is None else budget,
        opts.driver_root,
    )
    requirements = (*settings.requirements, *_from_options(opts.require or (), expect_no_gpu=opts.expect_no_gpu))
    proof = _proof(opts.smoke, settings, budget)
    allowances = allowed(settings)
    if opts.list_requirements:
        from gpuenv.cli.inputs import validate_assumptions
        from gpuenv.report.reference import grammar_lines, listed_requirements

        validate_assumptions(subject, opts.matrix)
        emit_record(listed_requirements(), grammar_lines, wanted, color=not opts.no_color)
        return
    if proof is not None:
        check_places(entry.path for entry in wanted)
    history = read_history(opts.history)

    def terms_of(facts: Snapshot) -> DiagnosisOptions:
        from gpuenv.doctor.diagnose import DiagnosisOptions
        from gpuenv.preflight.evaluate import evaluate, no_cupy_expected, no_gpu_expected

        return DiagnosisOptions(
            requirements=evaluate(requirements, facts),
            no_gpu=no_gpu_expected(requirements),
            no_cupy=no_cupy_expected(requirements),
            allowances=allowances,
            day=today(),
        )

    waiting = opts.wait if opts.wait is not None else settings.wait or 0.0
    is_live = opts.snapshot is None and not opts.no_probe
    started = time.monotonic()
    report = _not_busy(
        lambda: examine(subject, opts.matrix, terms_of, started, proof), started + (waiting if is_live else 0.0)
    )
    if settings.retry_elsewhere if opts.retry_elsewhere is None else opts.retry_elsewhere:
        report = sent_elsewhere(report)
    emit_report(report, wanted, How(verbose=opts.verbose, color=not opts.no_color, redact=opts.redact, history=history))
    if opts.verbose:
        show_phases(report.snapshot)
    raise typer.Exit(report.exit_code)


def _proof(level: SmokeLevel | None, settings: Config, budget: float | None) -> Proof | None:
    """The GPU tests within the time budget; by default there is some for the machine and some for them."""
    wanted = level or settings.smoke
    if wanted is None:
        return None
    from gpuenv.cli.gpu_tests import Proof
    from gpuenv.smoke.tasks import BUDGET

    seconds = options.TIMEOUT + _SLACK * BUDGET[wanted] if budget is None else budget
    return Proof(wanted, seconds, settings.file if level is None else None)


def _from_options(texts: Sequence[str], *, expect_no_gpu: bool) -> tuple[Requirement, ...]:
    from gpuenv.preflight.requirement import Origin, RequirementError, parse_requirement

    read, faults = [], []
    for text in texts:
        try:
            read.append(parse_requirement(text))
        except RequirementError as error:
            faults.append(str(error))
    if faults:
        raise CommandError(ExitCode.USAGE, "\n".join(faults), "gpuenv preflight --list-requirements shows the grammar")
    if expect_no_gpu:
        read.append(parse_requirement("gpu==0", Origin("--expect-no-gpu")))
    return tuple(read)


def _not_busy(look: Callable[[], Report], until: float) -> Report:
    """Looks, and looks again while nothing is wrong but that the GPU is busy, and there is time to wait."""
    pause = _FIRST_PAUSE
    report = look()
    while _is_busy(report) and time.monotonic() < until:
        left = until - time.monotonic()
        announce(f"the GPU is busy; looking again (at most {left:.0f} s more)")
        time.sleep(min(pause, left))
        pause = min(pause * 2, _LONGEST_PAUSE)
        report = look()
    return report


def sent_elsewhere(report: Report) -> Report:
    """The same report, with the code that sends a job to another host where that may help."""
    from gpuenv.preflight.evaluate import reason_to_retry

    if report.exit_code != ExitCode.UNFIT:
        return report
    reason = reason_to_retry(report.findings, report.requirements)
    return report._replace(exit_code=int(ExitCode.RETRY_ELSEWHERE), retry_elsewhere=reason) if reason else report


def _is_busy(report: Report) -> bool:
    """Whether all that is wrong may pass by itself."""
    from gpuenv.model.causes import Cause
    from gpuenv.model.finding import RequirementStatus, Severity
    from gpuenv.preflight.evaluate import is_transient

    errors = [finding for finding in report.findings if finding.severity is Severity.ERROR]
    violated = [entry for entry in report.requirements if entry.status is RequirementStatus.VIOLATED]
    may_pass = all(f.cause.transient or f.cause is Cause.REQUIREMENT_NOT_MET for f in errors)
    return bool(errors) and may_pass and all(is_transient(entry) for entry in violated)
