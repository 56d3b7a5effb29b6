"""``gpuenv preflight``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple, Optional

import typer

from gpuenv.cli import completion, options
from gpuenv.cli.command_errors import CommandError, progress
from gpuenv.cli.sources import MachineSource
from gpuenv.clock import today
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.smoke_level import SmokeLevel
from gpuenv.model.strings import Lines

if TYPE_CHECKING:
    from gpuenv.cli.gpu_tests import GpuTestRequest
    from gpuenv.doctor.diagnose import DiagnosisOptions
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.preflight.config import Config
    from gpuenv.preflight.requirements import Requirement
    from gpuenv.report.report import Report

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 15.0  # seconds between two attempts on a busy GPU
_SLACK = 1.5  # default time limit of the GPU tests, as a multiple of their level's budget


class PreflightOptions(NamedTuple):
    """The options of ``gpuenv preflight``."""

    require: Annotated[
        Optional[list[str]],
        typer.Option(
            "--require", metavar="REQUIREMENT", help="Requirement, such as 'gpu>=1' or 'cc>=8.0'. Repeatable."
        ),
    ] = None
    config: options.ConfigFile = None
    no_config: options.NoConfig = False
    list_requirements: Annotated[
        bool, typer.Option("--list-requirements", help="Print the grammar and keys of requirements, and exit.")
    ] = False
    retry_elsewhere: Annotated[
        Optional[bool],
        typer.Option("--retry-elsewhere/--no-retry-elsewhere", help="Exit with 75 if this host is bad or busy."),
    ] = None
    wait: Annotated[
        Optional[float],
        typer.Option("--wait", metavar="SECONDS", min=0, max=86400, help="Time to wait for a busy GPU."),
    ] = None
    fail_on: Annotated[
        Optional[list[str]],
        typer.Option(
            "--fail-on",
            metavar="WHAT",
            help="Turn findings into errors: warning, a code or a cause. Repeatable.",
            autocompletion=completion.fail_on,
        ),
    ] = None
    smoke: options.Smoke = None
    expect_no_gpu: Annotated[
        bool, typer.Option("--expect-no-gpu", help="Require that there is no GPU: the same as --require gpu==0.")
    ] = False
    host_only: Annotated[
        bool, typer.Option("--host-only", help="Judge only the driver, GPUs and container, on a node without CuPy.")
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
            help="Time limit, excluding --wait. [30; more with --smoke]",
        ),
    ] = None
    redact: options.Redact = True
    driver_root: options.DriverRoot = "/"


@options.takes(PreflightOptions)
def preflight(opts: PreflightOptions) -> None:
    """Gate a CI job: doctor, requirements and GPU tests.

    Runs within a time limit and writes reports that CI systems can read.

    Exit code: 0 fit and every requirement met, 1 unfit, 8 undetermined; with --retry-elsewhere, 75 for a host that is
    bad or busy.
    """
    from gpuenv.cli.configuration import check_suppressions, fail_on_names, read_config
    from gpuenv.cli.diagnosis import make_diagnosis_report
    from gpuenv.cli.output import (
        RECORD_FORMATS,
        REPORT_FORMATS,
        RenderOptions,
        check_paths,
        emit_record,
        emit_report,
        read_formats,
        read_history,
    )
    from gpuenv.preflight.config import FailOn

    specs = read_formats(opts.formats, opts.output, RECORD_FORMATS if opts.list_requirements else REPORT_FORMATS)
    config = read_config(opts.config, no_config=opts.no_config)
    budget = opts.timeout if opts.timeout is not None else config.timeout
    source = MachineSource(
        opts.python,
        opts.snapshot,
        opts.assume or (),
        opts.no_probe,
        options.TIMEOUT if budget is None else budget,
        opts.driver_root,
        host_only=opts.host_only,
    )
    requirements = _requirements(config, opts)
    gpu_tests = _gpu_tests(opts.smoke, config, budget)
    if opts.host_only:
        _check_host_only(opts.python, requirements, gpu_tests)
    check_suppressions(config.suppressions)
    fail_on = fail_on_names((*config.fail_on, *map(FailOn, opts.fail_on or ())))
    if opts.list_requirements:
        from gpuenv.cli.sources import validate_options
        from gpuenv.report.catalogue import grammar_lines, listed_requirements

        validate_options(source, opts.matrix)
        emit_record(listed_requirements(), grammar_lines, specs, color=not opts.no_color)
        return
    if gpu_tests is not None:
        check_paths(entry.path for entry in specs)
    history = read_history(opts.history)

    def make_options(snapshot: Snapshot) -> DiagnosisOptions:
        from gpuenv.doctor.diagnose import DiagnosisOptions
        from gpuenv.preflight.evaluate import evaluate, no_cupy_expected, no_gpu_expected

        return DiagnosisOptions(
            requirements=evaluate(requirements, snapshot),
            no_gpu=no_gpu_expected(requirements),
            no_cupy=no_cupy_expected(requirements),
            host_only=opts.host_only,
            suppressions=config.suppressions,
            fail_on=fail_on,
            hardware_must_be_sound=True,
            day=today(),
        )

    waiting = opts.wait if opts.wait is not None else config.wait or 0.0
    is_live = opts.snapshot is None and not opts.no_probe
    started = time.monotonic()
    report = _when_free(
        lambda: make_diagnosis_report(source, opts.matrix, make_options, started, gpu_tests),
        started + (waiting if is_live else 0.0),
    )
    if config.retry_elsewhere if opts.retry_elsewhere is None else opts.retry_elsewhere:
        report = with_retry_code(report)
    emit_report(
        report,
        specs,
        RenderOptions(verbose=opts.verbose, color=not opts.no_color, redacted=opts.redact, history=history),
    )
    raise typer.Exit(report.exit_code)


def _check_host_only(python: str | None, requirements: Sequence[Requirement], gpu_tests: GpuTestRequest | None) -> None:
    """Refuses what needs a target environment."""
    from gpuenv.preflight.requirements import OF_TARGET

    needs_target = [f"{entry.text} ({entry.origin.text})" for entry in requirements if entry.key in OF_TARGET]
    needs_target += ["--python"] if python is not None else []
    if gpu_tests is not None:
        needs_target.append(f"smoke ({gpu_tests.file})" if gpu_tests.file else "--smoke")
    if needs_target:
        message = f"--host-only judges no environment, and excludes {', '.join(needs_target)}"
        raise CommandError(ExitCode.USAGE, message, "--no-config ignores configuration files")


def _gpu_tests(level: SmokeLevel | None, config: Config, budget: float | None) -> GpuTestRequest | None:
    """The GPU tests within the time limit, which by default covers probing plus the level's budget."""
    selected = level or config.smoke
    if selected is None:
        return None
    from gpuenv.cli.gpu_tests import GpuTestRequest
    from gpuenv.smoke.tasks import BUDGET

    seconds = options.TIMEOUT + _SLACK * BUDGET[selected] if budget is None else budget
    return GpuTestRequest(selected, seconds, config.file if level is None else None)


def _requirements(config: Config, opts: PreflightOptions) -> tuple[Requirement, ...]:
    """Those of the configuration and of the options.

    Raises:
        CommandError: for an invalid one, or if no machine can meet them.
    """
    from gpuenv.preflight.evaluate import contradiction

    found = (*config.requirements, *_from_options(opts.require or (), expect_no_gpu=opts.expect_no_gpu))
    if contradictory := contradiction(found):
        raise CommandError(ExitCode.USAGE, f"no machine can meet {contradictory}", "remove one of them")
    return found


def _from_options(texts: Sequence[str], *, expect_no_gpu: bool) -> tuple[Requirement, ...]:
    from gpuenv.preflight.requirements import Origin, RequirementError, parse_requirement

    read, faults = [], []
    for text in texts:
        try:
            read.append(parse_requirement(text))
        except RequirementError as error:
            faults.append(str(error))
    if faults:
        raise CommandError(ExitCode.USAGE, Lines(faults), "gpuenv preflight --list-requirements shows the grammar")
    if expect_no_gpu:
        read.append(parse_requirement("gpu==0", Origin("--expect-no-gpu")))
    return tuple(read)


def _when_free(examine: Callable[[], Report], until: float) -> Report:
    """Examines the machine, again and again while a busy GPU is the only error and time is left."""
    from gpuenv.preflight.evaluate import may_pass

    pause = _FIRST_PAUSE
    report = examine()
    while may_pass(report.findings, report.requirements) and time.monotonic() < until:
        left = until - time.monotonic()
        progress(f"the GPU is busy; trying again (at most {left:.0f} s more)")
        time.sleep(min(pause, left))
        pause = min(pause * 2, _LONGEST_PAUSE)
        report = examine()
    return report


def with_retry_code(report: Report) -> Report:
    """The report with the exit code that sends the job to another host, if that may help."""
    from gpuenv.preflight.evaluate import reason_to_retry

    if report.exit_code != ExitCode.UNFIT:
        return report
    reason = reason_to_retry(report.findings, report.requirements)
    return report._replace(exit_code=int(ExitCode.RETRY_ELSEWHERE), retry_elsewhere=reason) if reason else report
