"""``gpuenv smoke``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Optional

import typer

from gpuenv.cli import completion, options
from gpuenv.cli.command_errors import CommandError, announce, usage_errors
from gpuenv.cli.sources import MachineSource, find_target
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.smoke_level import SmokeLevel

if TYPE_CHECKING:
    from gpuenv.cli.output import OutputSpec
    from gpuenv.smoke.tasks import MinimumRate, SmokeOptions


class SmokeCommandOptions(NamedTuple):
    """The arguments and options of ``gpuenv smoke``."""

    groups: Annotated[
        Optional[list[str]],
        typer.Argument(metavar="[GROUP]...", help="Groups; default: all.", autocompletion=completion.smoke_groups),
    ] = None
    level: Annotated[
        SmokeLevel, typer.Option("--level", help="Depth of the tests: at most 10 s, 60 s, or minutes.")
    ] = SmokeLevel.QUICK
    only: Annotated[
        Optional[list[str]],
        typer.Option(
            "--only",
            metavar="TEST",
            help="Run this test, whatever its level. Repeatable.",
            autocompletion=completion.smoke_tests,
        ),
    ] = None
    gpu: Annotated[
        Optional[list[str]],
        typer.Option("--gpu", metavar="UUID|INDEX", help="Test this GPU. Repeatable. Default: all."),
    ] = None
    repeat: Annotated[
        int, typer.Option("--repeat", metavar="N", min=1, max=10000, help="Number of runs of each test.")
    ] = 1
    seed: Annotated[Optional[int], typer.Option("--seed", metavar="N", help="Seed of the random inputs.")] = None
    list_tests: Annotated[bool, typer.Option("--list", help="List the tests and exit.")] = False
    save_baseline: Annotated[
        Optional[Path], typer.Option("--save-baseline", metavar="FILE", help="Save the measurements.")
    ] = None
    compare: Annotated[
        Optional[Path], typer.Option("--compare", metavar="FILE", help="Compare the measurements with a baseline.")
    ] = None
    skip: Annotated[
        Optional[list[str]],
        typer.Option(
            "--skip",
            metavar="NAME",
            help="Skip this test or group. Repeatable.",
            autocompletion=completion.smoke_names,
        ),
    ] = None
    faults: Annotated[
        bool,
        typer.Option("--faults", help="Also run the tests that make a kernel fault; they leave Xids in the log."),
    ] = False
    burn_in: Annotated[
        Optional[float],
        typer.Option("--burn-in", metavar="SECONDS", min=1, max=86400, help="Run health.sustained for this time."),
    ] = None
    min_rate: Annotated[
        Optional[list[str]],
        typer.Option(
            "--min-rate",
            metavar="NAME=RATE",
            help="Fail below this rate, or below this share of the baseline or the data sheet (copy=80%). Repeatable.",
        ),
    ] = None
    fail_on: Annotated[
        Optional[list[str]],
        typer.Option(
            "--fail-on",
            metavar="warning|CODE|CAUSE",
            help="Fail on such a finding (gpu-throttled). Repeatable.",
            autocompletion=completion.smoke_fail_on,
        ),
    ] = None
    python: options.Python = None
    formats: options.Formats = None
    output: options.OutputFile = None
    offline: options.Offline = False
    no_color: options.NoColor = False
    verbose: options.Verbose = False
    timeout: Annotated[
        Optional[float],
        typer.Option(
            "--timeout", metavar="SECONDS", min=0.5, max=options.LONGEST_TIMEOUT, help="Time limit for each test."
        ),
    ] = None
    redact: options.Redact = True
    driver_root: options.DriverRoot = "/"


@options.takes(SmokeCommandOptions)
def smoke(opts: SmokeCommandOptions) -> None:
    """Test CuPy on the GPU, and compare every result.

    Tests kernels, libraries, streams, memory and copies, each in a separate process. An interrupted run reports the
    results so far.

    Exit code: 0 all passed (tests that do not apply are skipped), 5 a test did not pass or all tests of a GPU were
    skipped, 7 the target environment cannot be used.
    """
    from gpuenv.cli.configuration import smoke_fail_on_names
    from gpuenv.cli.gpu_tests import planted_fault
    from gpuenv.cli.output import FORMATS, RECORD_FORMATS, check_paths, read_formats
    from gpuenv.cli.smoke_baseline import read_baseline
    from gpuenv.smoke.tasks import DEFAULT_SEED, SmokeOptions

    specs = read_formats(opts.formats, opts.output, RECORD_FORMATS if opts.list_tests else FORMATS)
    check_paths([opts.save_baseline, *(entry.path for entry in specs)])
    selection = SmokeOptions(
        groups=tuple(opts.groups or ()),
        only=tuple(opts.only or ()),
        gpus=tuple(opts.gpu or ()),
        level=opts.level,
        seed=DEFAULT_SEED if opts.seed is None else opts.seed,
        repeat=opts.repeat,
        timeout=opts.timeout,
        fault=planted_fault(),
        skip=tuple(opts.skip or ()),
        faults=opts.faults,
        burn_in=opts.burn_in,
        minimums=_minimums(opts.min_rate or ()),
    )
    _check_selection(selection, listing=opts.list_tests)
    fail_on = smoke_fail_on_names(opts.fail_on or ())
    if opts.list_tests:
        find_target(opts.python)  # report invalid options, though the list does not need them
        read_baseline(opts.compare)
        _list_tests(selection, specs, color=not opts.no_color)
    else:
        raise typer.Exit(_run_tests(opts, selection, specs, fail_on))


def _run_tests(
    opts: SmokeCommandOptions, selection: SmokeOptions, specs: Sequence[OutputSpec], fail_on: Sequence[str]
) -> int:
    """Runs the tests and writes the report; returns the exit code.

    Raises:
        CommandError: when the target environment cannot run any test, after writing the report.
    """
    from gpuenv.cli.diagnosis import configured_docs, with_job
    from gpuenv.cli.output import OutputSpec, RenderOptions, emit_report
    from gpuenv.cli.smoke_baseline import read_baseline
    from gpuenv.cli.smoke_run import run_selection, smoke_report, with_fail_on, write_baseline
    from gpuenv.smoke.tasks import select_tests

    for test in select_tests(selection):
        if test.leaves:
            announce(f"{test.name} makes a kernel fault on purpose and leaves {test.leaves}")
    address = configured_docs()
    source = MachineSource(opts.python, driver_root=opts.driver_root)
    run = run_selection(selection, source, read_baseline(opts.compare))
    report = with_job(smoke_report(run, opts.python, address), is_own=True)
    result = run.result._replace(host_name=report.host_name, jobs=report.jobs)
    if opts.save_baseline is not None:
        write_baseline(result, opts.save_baseline, redacted=opts.redact)
    render_options = RenderOptions(verbose=opts.verbose, color=not opts.no_color, redacted=opts.redact, tests_only=True)
    # If nothing ran, the reason on standard error suffices as text; the requested formats contain it too.
    forms = specs if run.unusable is None else [entry for entry in specs if entry != OutputSpec("text", None)]
    report = with_fail_on(report._replace(smoke=result), fail_on)
    emit_report(report, forms, render_options)
    if run.unusable is not None:
        from gpuenv.doctor.fixes.adaptation import add_target_option

        remedy = add_target_option(run.unusable.remedy or "", opts.python) or None
        raise CommandError(report.exit_code, str(run.unusable), remedy)
    return report.exit_code


def _minimums(texts: Sequence[str]) -> tuple[MinimumRate, ...]:
    from gpuenv.smoke.baseline import parse_minimum

    with usage_errors(ValueError):
        return tuple(parse_minimum(text) for text in texts)


def _check_selection(selection: SmokeOptions, *, listing: bool) -> None:
    """Refuses unknown names and contradictory options."""
    from gpuenv.cli.gpu_tests import check_names
    from gpuenv.model.smoke import HEALTH_STATE
    from gpuenv.smoke.tasks import BURN_IN, GROUPS, all_tests

    tests = {test.name: test for test in all_tests()}
    listed = "gpuenv smoke --list names them"
    check_names("group", selection.groups, GROUPS)
    check_names("test", selection.only, list(tests), listed)
    check_names("test or group", selection.skip, [*tests, *GROUPS, HEALTH_STATE], listed)
    for name in () if listing else selection.only:
        if name in tests and tests[name].leaves and not selection.faults:
            message = f"{name} makes a kernel fault on purpose: it leaves {tests[name].leaves}"
            raise CommandError(ExitCode.USAGE, message, "add --faults to run it")
    needed = [*(entry.test for entry in selection.minimums), *([BURN_IN] if selection.burn_in is not None else [])]
    for name in {*needed, *selection.only} & {*selection.skip}:
        raise CommandError(ExitCode.USAGE, f"--skip {name} contradicts another option")


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
