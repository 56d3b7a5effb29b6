"""``gpuenv preflight``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.announce import announce
from gpuenv.cli.clock import today
from gpuenv.cli.errors import CommandError
from gpuenv.cli.inputs import Subject
from gpuenv.cli.settings import allowed, read_settings
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.smoke import Level

if TYPE_CHECKING:
    from gpuenv.cli.formats import Wanted
    from gpuenv.cli.gpu_tests import Proof
    from gpuenv.doctor.diagnose import Terms
    from gpuenv.model.allowance import Allowance
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.preflight.config_file import Config
    from gpuenv.preflight.requirement import Requirement
    from gpuenv.report.report import Report

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 15.0  # seconds between two looks at a busy GPU
_SLACK = 1.5  # how much longer than their level's budget GPU tests may take, if nothing else is said

Require = Annotated[
    Optional[list[str]],
    typer.Option("--require", metavar="REQUIREMENT", help="What must hold, such as 'gpu>=1' or 'cc>=8.0'. Repeatable."),
]
ListRequirements = Annotated[
    bool, typer.Option("--list-requirements", help="Print the grammar and every key of requirements, and end.")
]
RetryElsewhere = Annotated[
    Optional[bool],
    typer.Option("--retry-elsewhere/--no-retry-elsewhere", help="End in 75 where this host is bad or busy."),
]
Wait = Annotated[
    Optional[float],
    typer.Option("--wait", metavar="SECONDS", min=0, max=86400, help="Wait that long for a busy GPU."),
]
Timeout = Annotated[
    Optional[float],
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=options.SHORTEST_TIMEOUT,
        max=options.LONGEST_TIMEOUT,
        help="The time budget, waiting aside. [30; more with --smoke]",
    ),
]


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be examined, against which requirements, and how it is judged."""

    subject: Subject
    matrix: Path | None
    requirements: tuple[Requirement, ...]
    proof: Proof | None
    wait: float
    retry_elsewhere: bool
    allowances: tuple[Allowance, ...]


def preflight(
    require: Require = None,
    config: options.ConfigFile = None,
    no_config: options.NoConfig = False,
    list_requirements: ListRequirements = False,
    retry_elsewhere: RetryElsewhere = None,
    wait: Wait = None,
    smoke: options.Smoke = None,
    expect_no_gpu: Annotated[
        bool, typer.Option("--expect-no-gpu", help="No GPU may be here: the same as --require gpu==0.")
    ] = False,
    python: options.Python = None,
    snapshot: options.SnapshotFile = None,
    assume: options.Assume = None,
    no_probe: options.NoProbe = False,
    matrix: options.MatrixFile = None,
    formats: options.Formats = None,
    output: options.OutputFile = None,
    history: options.History = None,
    offline: options.Offline = False,
    no_color: options.NoColor = False,
    verbose: options.Verbose = False,
    timeout: Timeout = None,
    redact: options.Redact = True,
    driver_root: options.DriverRoot = "/",
) -> None:
    """The gate of a CI job: doctor, requirements and GPU tests.

    In a time budget, and with a report in the form of every CI system.

    Exit code: 0 fit and every requirement met, 1 unfit, 8 could not be told; with --retry-elsewhere, 75 for a host that
    is bad or busy.
    """
    del offline  # nothing here uses the network
    from gpuenv.cli.examine import show_phases
    from gpuenv.cli.formats import NAMES, OWN, How, check_places, emit_report, read_formats
    from gpuenv.cli.history import read_history

    wanted = read_formats(formats, output, OWN if list_requirements else NAMES)
    settings = read_settings(config, no_config=no_config)
    budget = timeout if timeout is not None else settings.timeout
    waiting = wait if wait is not None else settings.wait or 0.0
    asked = _Asked(
        subject=Subject(
            python, snapshot, assume or (), no_probe, options.TIMEOUT if budget is None else budget, driver_root
        ),
        matrix=matrix,
        requirements=(*settings.requirements, *_from_options(require or (), expect_no_gpu=expect_no_gpu)),
        proof=_proof(smoke, settings, budget),
        wait=0.0 if snapshot is not None or no_probe else waiting,
        retry_elsewhere=bool(settings.retry_elsewhere if retry_elsewhere is None else retry_elsewhere),
        allowances=allowed(settings),
    )
    if list_requirements:
        _list_requirements(asked, wanted, color=not no_color)
        return
    if asked.proof is not None:
        check_places(entry.path for entry in wanted)
    earlier = read_history(history)
    report = _examine(asked)
    how = How(verbose=verbose, color=not no_color, redact=redact, history=lambda: earlier)
    emit_report(report, wanted, how)
    if verbose:
        show_phases(report.snapshot)
    raise typer.Exit(report.exit_code)


def _proof(asked: Level | None, settings: Config, budget: float | None) -> Proof | None:
    """The GPU tests, within the time that is given; without one, there is some for the machine and some for them."""
    level = asked or settings.smoke
    if level is None:
        return None
    from gpuenv.cli.gpu_tests import Proof
    from gpuenv.smoke.plan import BUDGET

    seconds = options.TIMEOUT + _SLACK * BUDGET[level] if budget is None else budget
    return Proof(level, seconds, settings.file if asked is None else None)


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


def _examine(asked: _Asked) -> Report:
    """Looks, and looks again while nothing but the GPU's being busy is wrong and there is time to wait."""
    started = time.monotonic()
    until = started + asked.wait
    pause = _FIRST_PAUSE
    report = _look(asked, started)
    while _is_busy(report) and time.monotonic() < until:
        left = until - time.monotonic()
        announce(f"the GPU is busy; looking again (at most {left:.0f} s more)")
        time.sleep(min(pause, left))
        pause = min(pause * 2, _LONGEST_PAUSE)
        report = _look(asked, started)
    return sent_elsewhere(report) if asked.retry_elsewhere else report


def sent_elsewhere(report: Report) -> Report:
    """The same report, with the code that sends a job to another host where that may help."""
    from gpuenv.preflight.elsewhere import reason_to_retry

    if report.exit_code != ExitCode.UNFIT:
        return report
    reason = reason_to_retry(report.findings, report.requirements)
    return replace(report, exit_code=int(ExitCode.RETRY_ELSEWHERE), retry_elsewhere=reason) if reason else report


def _look(asked: _Asked, started: float) -> Report:
    from gpuenv.cli.examine import examine

    def terms_of(facts: Snapshot) -> Terms:
        from gpuenv.doctor.diagnose import Terms
        from gpuenv.preflight.evaluate import evaluate, no_cupy_expected, no_gpu_expected

        return Terms(
            requirements=evaluate(asked.requirements, facts),
            no_gpu=no_gpu_expected(asked.requirements),
            no_cupy=no_cupy_expected(asked.requirements),
            allowances=asked.allowances,
            day=today(),
        )

    return examine(asked.subject, asked.matrix, terms_of, started, asked.proof)


def _is_busy(report: Report) -> bool:
    """Whether all that is wrong may pass by itself."""
    from gpuenv.model.causes import Cause
    from gpuenv.model.finding import Severity
    from gpuenv.model.requirement import RequirementStatus
    from gpuenv.preflight.evaluate import is_transient

    errors = [finding for finding in report.findings if finding.severity is Severity.ERROR]
    violated = [entry for entry in report.requirements if entry.status is RequirementStatus.VIOLATED]
    may_pass = all(f.cause.transient or f.cause is Cause.REQUIREMENT_NOT_MET for f in errors)
    return bool(errors) and may_pass and all(is_transient(entry) for entry in violated)


def _list_requirements(asked: _Asked, wanted: Sequence[Wanted], *, color: bool) -> None:
    from gpuenv.cli.formats import emit_record
    from gpuenv.cli.understood import refuse_unread
    from gpuenv.report.listed import listed_requirements
    from gpuenv.report.required import grammar_lines

    refuse_unread(asked.subject, asked.matrix)
    emit_record(listed_requirements(), grammar_lines, wanted, color=color)
