"""``gpuenv doctor``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple, Optional

import typer

from gpuenv.cli import completion, options
from gpuenv.cli.command_errors import CommandError
from gpuenv.cli.sources import MachineSource
from gpuenv.clock import today
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import did_you_mean

if TYPE_CHECKING:
    from gpuenv.doctor.diagnose import DiagnosisOptions
    from gpuenv.model.snapshot import Snapshot


class DoctorOptions(NamedTuple):
    """The options of ``gpuenv doctor``."""

    python: options.Python = None
    snapshot: options.SnapshotFile = None
    assume: options.Assume = None
    no_probe: options.NoProbe = False
    paste: options.Paste = None
    list_checks: Annotated[bool, typer.Option("--list", help="List the checks and exit.")] = False
    only: Annotated[
        Optional[list[str]],
        typer.Option(
            metavar="CODE",
            help="Run this check and those it requires. Repeatable.",
            autocompletion=completion.check_codes,
        ),
    ] = None
    skip: Annotated[
        Optional[list[str]],
        typer.Option(metavar="CODE", help="Skip this check. Repeatable.", autocompletion=completion.check_codes),
    ] = None
    expect_no_gpu: Annotated[bool, typer.Option("--expect-no-gpu", help="Do not require a GPU.")] = False
    fix: Annotated[
        bool, typer.Option("--fix", help="Repair what can be repaired inside the target; shows the plan first.")
    ] = False
    yes: options.Yes = False
    dry_run: options.DryRun = False
    config: options.ConfigFile = None
    no_config: options.NoConfig = False
    matrix: options.MatrixFile = None
    formats: options.Formats = None
    output: options.OutputFile = None
    history: options.History = None
    offline: Annotated[
        bool, typer.Option("--offline", help="Do not use the network; --fix uses only the cache of uv.")
    ] = False
    no_color: options.NoColor = False
    verbose: options.Verbose = False
    timeout: options.Timeout = options.TIMEOUT
    smoke: options.Smoke = None
    deep: options.Deep = False
    redact: options.Redact = True
    driver_root: options.DriverRoot = "/"


@options.takes(DoctorOptions)
def doctor(opts: DoctorOptions) -> None:
    """Find the root cause of a broken setup, and the fix.

    Probes the machine and the target environment. With -v, also lists every check, and prints the time of each probe on
    standard error.

    Exit code: 0 fit, 1 unfit, 8 undetermined; with --fix, 2 consent is missing, 4 failed and the former state was
    restored, 7 the target cannot be used.
    """
    if opts.fix and (opts.snapshot is not None or opts.no_probe or opts.paste is not None):
        raise CommandError(ExitCode.USAGE, "--fix repairs this machine; it excludes --snapshot, --paste and --no-probe")
    if (opts.yes or opts.dry_run) and not opts.fix:
        raise CommandError(ExitCode.USAGE, "--yes and --dry-run require --fix")
    source = MachineSource(
        opts.python,
        opts.snapshot,
        opts.assume or (),
        opts.no_probe,
        opts.timeout,
        opts.driver_root,
        deep=opts.deep,
        paste=opts.paste,
    )
    if opts.list_checks:
        _list(opts, source)
    else:
        raise typer.Exit(_judge(opts, source))


def _judge(opts: DoctorOptions, source: MachineSource) -> int:
    from gpuenv.cli.configuration import check_suppressions, read_config
    from gpuenv.cli.diagnosis import make_diagnosis_report
    from gpuenv.cli.output import RenderOptions, check_paths, emit_report, read_formats, read_history

    specs = read_formats(opts.formats, opts.output)
    if opts.smoke is not None:
        check_paths(entry.path for entry in specs)
    excluded = _excluded_codes(opts)
    suppressions = read_config(opts.config, no_config=opts.no_config).suppressions
    check_suppressions(suppressions)

    def make_options(_: Snapshot) -> DiagnosisOptions:
        from gpuenv.doctor.diagnose import DiagnosisOptions

        return DiagnosisOptions(no_gpu=opts.expect_no_gpu, excluded=excluded, suppressions=suppressions, day=today())

    history = read_history(opts.history)
    gpu_tests = None
    if opts.smoke:
        from gpuenv.cli.gpu_tests import GpuTestRequest

        gpu_tests = GpuTestRequest(opts.smoke)
    examine = partial(make_diagnosis_report, source, opts.matrix, make_options, gpu_tests=gpu_tests)
    report = examine()
    if opts.fix:
        from gpuenv.cli.fix import fix

        report = fix(report, examine, opts, source, specs)
    emit_report(
        report,
        specs,
        RenderOptions(verbose=opts.verbose, color=not opts.no_color, redacted=opts.redact, history=history),
    )
    return report.exit_code


def _list(opts: DoctorOptions, source: MachineSource) -> None:
    """Lists every check with its code, title and causes."""
    from gpuenv.cli.check_codes import plugins
    from gpuenv.cli.configuration import check_suppressions, read_config
    from gpuenv.cli.output import RECORD_FORMATS, emit_record, read_formats
    from gpuenv.cli.sources import validate_options
    from gpuenv.doctor.checks import all_checks
    from gpuenv.model.documents import Checks, ListedCheck
    from gpuenv.report.catalogue import list_lines, listed_checks
    from gpuenv.report.text_line import TextLine

    specs = read_formats(opts.formats, opts.output, RECORD_FORMATS)
    _excluded_codes(opts)
    check_suppressions(read_config(opts.config, no_config=opts.no_config).suppressions)
    validate_options(source, opts.matrix)
    from_plugins = (ListedCheck(plugin.code, plugin.function, (), plugin.package) for plugin in plugins())
    listed = Checks((*listed_checks(all_checks()), *from_plugins))
    plugin_lines = [
        TextLine(f"{plugin.code}  from {plugin.package} ({plugin.function})", hang=8) for plugin in plugins()
    ]
    emit_record(listed, lambda: [*list_lines(all_checks()), *plugin_lines], specs, color=not opts.no_color)


def _excluded_codes(opts: DoctorOptions) -> frozenset[str]:
    """The codes of the checks that ``--only`` and ``--skip`` leave out.

    Raises:
        CommandError: for an unknown code.
    """
    if not opts.only and not opts.skip:
        return frozenset()
    from gpuenv.cli.check_codes import known_codes
    from gpuenv.doctor.checks import all_checks

    checks = {check.code: check for check in all_checks()}
    codes = known_codes()
    selected = {_known(code, codes) for code in opts.only or ()}
    skipped = {_known(code, codes) for code in opts.skip or ()}
    if selected:
        for code in reversed(checks):  # the requirements of a check are registered before it
            if code in selected:
                selected |= {*checks[code].requires, *checks[code].unless}
    return frozenset(code for code in codes if (selected and code not in selected) or code in skipped)


def _known(code: str, codes: Sequence[str]) -> str:
    if code.upper() in codes:
        return code.upper()
    remedy = f"{did_you_mean(code, codes)} gpuenv doctor --list names them".lstrip()
    raise CommandError(ExitCode.USAGE, f"there is no check {code}", remedy)
