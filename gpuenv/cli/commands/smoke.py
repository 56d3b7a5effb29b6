"""``gpuenv smoke``."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Optional

import typer

from gpuenv.cli import completion, options
from gpuenv.cli.clock import now
from gpuenv.cli.command_errors import CommandError, announce, usage_errors
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.smoke_level import SmokeLevel

if TYPE_CHECKING:
    from gpuenv.cli.output import OutputSpec
    from gpuenv.matrix.tables import Matrix
    from gpuenv.model.smoke import SmokeResult
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.report.report import Report
    from gpuenv.smoke.session import UnusableTarget
    from gpuenv.smoke.tasks import MinimumRate, SmokeOptions


def smoke(
    groups: Annotated[
        Optional[list[str]],
        typer.Argument(metavar="[GROUP]...", help="Groups; default: all.", autocompletion=completion.smoke_groups),
    ] = None,
    level: Annotated[
        SmokeLevel, typer.Option("--level", help="Depth of the tests: at most 10 s, 60 s, or minutes.")
    ] = SmokeLevel.QUICK,
    only: Annotated[
        Optional[list[str]],
        typer.Option(
            "--only",
            metavar="TEST",
            help="Run this test, whatever its level. Repeatable.",
            autocompletion=completion.smoke_tests,
        ),
    ] = None,
    gpu: Annotated[
        Optional[list[str]],
        typer.Option("--gpu", metavar="UUID|INDEX", help="Test this GPU. Repeatable. Default: all."),
    ] = None,
    repeat: Annotated[
        int, typer.Option("--repeat", metavar="N", min=1, max=10000, help="Number of runs of each test.")
    ] = 1,
    seed: Annotated[Optional[int], typer.Option("--seed", metavar="N", help="Seed of the random inputs.")] = None,
    list_tests: Annotated[bool, typer.Option("--list", help="List the tests and exit.")] = False,
    save_baseline: Annotated[
        Optional[Path], typer.Option("--save-baseline", metavar="FILE", help="Save the measurements.")
    ] = None,
    compare: Annotated[
        Optional[Path], typer.Option("--compare", metavar="FILE", help="Compare the measurements with a baseline.")
    ] = None,
    skip: Annotated[
        Optional[list[str]],
        typer.Option(
            "--skip",
            metavar="NAME",
            help="Skip this test or group. Repeatable.",
            autocompletion=completion.smoke_names,
        ),
    ] = None,
    faults: Annotated[
        bool,
        typer.Option("--faults", help="Also run the tests that make a kernel fault; they leave Xids in the log."),
    ] = False,
    burn_in: Annotated[
        Optional[float],
        typer.Option("--burn-in", metavar="SECONDS", min=1, max=86400, help="Run health.sustained for this time."),
    ] = None,
    min_rate: Annotated[
        Optional[list[str]],
        typer.Option(
            "--min-rate",
            metavar="NAME=RATE",
            help="Fail below this rate, or below this share of the baseline or the data sheet (copy=80%). Repeatable.",
        ),
    ] = None,
    fail_on: Annotated[
        Optional[list[str]],
        typer.Option(
            "--fail-on",
            metavar="warning|CODE|CAUSE",
            help="Fail on such a finding (gpu-throttled). Repeatable.",
            autocompletion=completion.fail_on,
        ),
    ] = None,
    python: options.Python = None,
    formats: options.Formats = None,
    output: options.OutputFile = None,
    offline: options.Offline = False,
    no_color: options.NoColor = False,
    verbose: options.Verbose = False,
    timeout: Annotated[
        Optional[float],
        typer.Option(
            "--timeout", metavar="SECONDS", min=0.5, max=options.LONGEST_TIMEOUT, help="Time limit for each test."
        ),
    ] = None,
    redact: options.Redact = True,
    driver_root: options.DriverRoot = "/",
) -> None:
    """Test CuPy on the GPU, and compare every result.

    Tests kernels, libraries, streams, memory and copies, each in a separate process. An interrupted run reports the
    results so far.

    Exit code: 0 all passed (tests that do not apply are skipped), 5 a test did not pass or all tests of a GPU were
    skipped, 7 the target environment cannot be used.
    """
    del offline  # nothing here uses the network
    from gpuenv.cli.diagnosis import configured_docs, with_job
    from gpuenv.cli.gpu_tests import check_names, planted_fault
    from gpuenv.cli.output import (
        FORMATS,
        RECORD_FORMATS,
        OutputSpec,
        RenderOptions,
        check_paths,
        emit_report,
        read_formats,
    )
    from gpuenv.cli.smoke_baseline import read_baseline
    from gpuenv.smoke.tasks import DEFAULT_SEED, GROUPS, SmokeOptions, all_tests, select_tests

    specs = read_formats(formats, output, RECORD_FORMATS if list_tests else FORMATS)
    check_paths([save_baseline, *(entry.path for entry in specs)])
    selection = SmokeOptions(
        groups=tuple(groups or ()),
        only=tuple(only or ()),
        gpus=tuple(gpu or ()),
        level=level,
        seed=DEFAULT_SEED if seed is None else seed,
        repeat=repeat,
        timeout=timeout,
        fault=planted_fault(),
        skip=tuple(skip or ()),
        faults=faults,
        burn_in=burn_in,
        minimums=_minimums(min_rate or ()),
    )
    _check_selection(selection, fail_on or (), listing=list_tests)
    check_names("group", selection.groups, GROUPS)
    check_names("test", selection.only, [test.name for test in all_tests()], "gpuenv smoke --list names them")
    if list_tests:
        _find_interpreter(python)  # report invalid options, though the list does not need them
        read_baseline(compare)
        _list_tests(selection, specs, color=not no_color)
    else:
        for test in select_tests(selection):
            if test.leaves:
                announce(f"{test.name} makes a kernel fault on purpose and leaves {test.leaves}")
        address = configured_docs()
        run = _run(selection, python, driver_root, read_baseline(compare))
        report = with_job(_make_report(run, python, address), is_own=True)
        run = run._replace(result=run.result._replace(host_name=report.host_name, jobs=report.jobs))
        if save_baseline is not None:
            _save_baseline(run, save_baseline, redact=redact)
        render_options = RenderOptions(verbose=verbose, color=not no_color, redact=redact, of_the_tests=True)
        # If nothing ran, the reason on standard error suffices as text; the requested formats contain it too.
        forms = specs if run.unusable is None else [entry for entry in specs if entry != OutputSpec("text", None)]
        report, run = judged(report._replace(smoke=run.result), run, fail_on or ())
        emit_report(report, forms, render_options)
        if run.unusable is not None:
            from gpuenv.doctor.fixes.adaptation import add_target_option

            remedy = add_target_option(run.unusable.remedy or "", python) or None
            raise CommandError(run.result.exit_code, str(run.unusable), remedy)
        raise typer.Exit(run.result.exit_code)


def _minimums(texts: Sequence[str]) -> tuple[MinimumRate, ...]:
    from gpuenv.smoke.baseline import parse_minimum

    with usage_errors(ValueError):
        return tuple(parse_minimum(text) for text in texts)


def _check_selection(selection: SmokeOptions, fail_on: Sequence[str], *, listing: bool) -> None:
    """Refuses unknown names and contradictory options."""
    from gpuenv.cli.gpu_tests import check_names
    from gpuenv.doctor.checks import all_checks
    from gpuenv.model.causes import Cause
    from gpuenv.model.smoke import HEALTH_STATE
    from gpuenv.smoke.tasks import BURN_IN, GROUPS, all_tests

    tests = {test.name: test for test in all_tests()}
    check_names("test or group", selection.skip, [*tests, *GROUPS, HEALTH_STATE], "gpuenv smoke --list names them")
    codes = [check.code for check in all_checks() if check.reads_gpu_tests]
    check_names("code or cause", fail_on, ["warning", *codes, *(cause.value for cause in Cause)], "gpuenv explain")
    for name in () if listing else selection.only:
        if name in tests and tests[name].leaves and not selection.faults:
            message = f"{name} makes a kernel fault on purpose: it leaves {tests[name].leaves}"
            raise CommandError(ExitCode.USAGE, message, "add --faults to run it")
    needed = [*(entry.test for entry in selection.minimums), *([BURN_IN] if selection.burn_in is not None else [])]
    for name in {*needed, *selection.only} & {*selection.skip}:
        raise CommandError(ExitCode.USAGE, f"--skip {name} contradicts another option")


def judged(report: Report, run: SmokeRun, fail_on: Sequence[str]) -> tuple[Report, SmokeRun]:
    """Turns the findings of ``--fail-on`` into errors, and rejects the result for them."""
    from gpuenv.cli.smoke_baseline import rejected
    from gpuenv.doctor.diagnose import apply_fail_on

    findings = tuple(apply_fail_on(finding, fail_on) for finding in report.findings)
    raised = [new for new, former in zip(findings, report.findings, strict=True) if new is not former]
    if not raised:
        return report, run
    why = tuple(f"{finding.code} {finding.cause.value}: {finding.title}" for finding in raised)
    result = rejected(run.result, why)
    return report._replace(findings=findings, smoke=result, exit_code=result.exit_code), run._replace(result=result)


def _list_tests(selection: SmokeOptions, specs: Sequence[OutputSpec], *, color: bool) -> None:
    from gpuenv.cli.output import emit_record
    from gpuenv.model.documents import ListedTest, Tests
    from gpuenv.report.text_line import TextLine
    from gpuenv.smoke.tasks import SmokeOptions, select_tests

    is_detailed = bool(selection.only)
    tests = select_tests(SmokeOptions(selection.groups, selection.only, level=SmokeLevel.DEEP, faults=True))
    width = max(len(test.name) for test in tests)
    lines = [TextLine("Tests, each with its lowest level")]
    listed = []
    for test in tests:
        first = next(entry.value for entry in SmokeLevel if test.size(entry) is not None)
        listed.append(ListedTest(test.name, test.group, first, test.title, test.tolerance, test.needs))
        lines.append(TextLine(f"  {test.name:<{width}}  {first:<6}  {test.title}", hang=width + 12))
        if is_detailed:
            lines.append(TextLine(f"    tolerance: {test.tolerance}", hang=6))
            lines += [TextLine(f"    needs {need}") for need in test.needs]
            lines += [TextLine(f"    needs --faults: it leaves {test.leaves}")] if test.leaves else []
    emit_record(Tests(tuple(listed)), lambda: lines, specs, color=color)


def _find_interpreter(python: str | None) -> str | None:
    from gpuenv.probe.target import TargetError, find_interpreter

    with usage_errors(TargetError):
        return find_interpreter(python, os.environ)


class SmokeRun(NamedTuple):
    """The result of the tests, with the machine and the matrix."""

    result: SmokeResult
    snapshot: Snapshot
    matrix: Matrix
    unusable: UnusableTarget | None = None  # why the target environment cannot run any test


def _run(selection: SmokeOptions, python: str | None, driver_root: str, baseline: SmokeResult | None) -> SmokeRun:
    """Runs the tests; skips each with the reason if the target environment cannot run any.

    An interrupted run returns the results so far.

    Raises:
        CommandError: when the matrix cannot be read, or ``--gpu`` names a GPU that does not exist.
    """
    from gpuenv.cli.gpu_tests import run_tests, smoke_target, with_causes
    from gpuenv.cli.smoke_baseline import compared
    from gpuenv.cli.sources import MachineSource, get_both
    from gpuenv.smoke.session import SmokeInterrupted, UnusableTarget, skip_all

    interpreter = _find_interpreter(python) or ""
    source = MachineSource(python, None, (), no_probe=False, timeout=options.TIMEOUT, driver_root=driver_root)
    started = time.monotonic()
    snapshot, matrix = get_both(source, None)
    target = smoke_target(interpreter, source, snapshot, matrix, started)
    try:
        with usage_errors(ValueError):  # --gpu matches none
            result = run_tests(selection, target, matrix)
    except UnusableTarget as error:
        skipped = skip_all(selection, target, str(error), now())
        return SmokeRun(skipped._replace(exit_code=int(ExitCode.TARGET_UNUSABLE)), snapshot, matrix, error)
    except SmokeInterrupted as stop:
        result = with_causes(stop.result)
    return SmokeRun(compared(result, baseline, selection, target.peaks), snapshot, matrix)


def _save_baseline(run: SmokeRun, path: Path, *, redact: bool) -> None:
    """Saves the result as a baseline, unless the run was interrupted or measured nothing."""
    interrupted = run.result.exit_code == ExitCode.INTERRUPTED
    if interrupted or not any(test.measured for test in run.result.tests):
        why = "the tests were interrupted" if interrupted else "nothing was measured"
        announce(f"{path} is not written: {why}")
        return
    from gpuenv.cli.output import emit_json

    emit_json(run.result, path, redacted=redact)


def _make_report(run: SmokeRun, python: str | None, address: str | None) -> Report:
    """A report with the findings of the tests only."""
    from gpuenv.doctor.checks import all_checks
    from gpuenv.doctor.diagnose import DiagnosisOptions, diagnose
    from gpuenv.matrix.resolve import resolve
    from gpuenv.report.report import make_report

    result, snapshot, matrix = run.result, run.snapshot, run.matrix
    of_the_tests = {check.code for check in all_checks() if check.reads_gpu_tests}
    diagnosis_options = DiagnosisOptions(
        excluded=frozenset(check.code for check in all_checks() if not check.reads_gpu_tests), python=python
    )
    resolution = resolve(snapshot, matrix)
    diagnosis = diagnose(snapshot, matrix, resolution, time.monotonic, diagnosis_options, result)
    diagnosis = diagnosis._replace(checks=tuple(run for run in diagnosis.checks if run.code in of_the_tests))
    report = make_report(diagnosis, snapshot, result.duration, diagnosis_options, result, address)
    return report._replace(exit_code=result.exit_code)
