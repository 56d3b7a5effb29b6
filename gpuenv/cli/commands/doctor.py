"""``gpuenv doctor``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.clock import today
from gpuenv.cli.errors import CommandError
from gpuenv.cli.inputs import MachineSource
from gpuenv.model.exit_codes import ExitCode

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
    list_checks: Annotated[bool, typer.Option("--list", help="List the checks and end.")] = False
    only: Annotated[
        Optional[list[str]], typer.Option(metavar="CODE", help="This check and those that it needs. Repeatable.")
    ] = None
    skip: Annotated[Optional[list[str]], typer.Option(metavar="CODE", help="Leave a check out. Repeatable.")] = None
    expect_no_gpu: Annotated[bool, typer.Option("--expect-no-gpu", help="No GPU is expected here.")] = False
    fix: Annotated[
        bool, typer.Option("--fix", help="Mend what may be mended inside the target; the plan is shown first.")
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
        bool, typer.Option("--offline", help="Never use the network: for --fix, what the cache of uv holds.")
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
    """Name the one true cause of what is broken, and its cure.

    The machine and the target environment are probed.

    Exit code: 0 fit, 1 unfit, 8 could not be told; with --fix, 2 consent is missing, 4 failed and the former state is
    back, 7 the target cannot be used.

    With -v, every check, and on standard error where the time went.
    """
    if opts.fix and (opts.snapshot is not None or opts.no_probe or opts.paste is not None):
        raise CommandError(ExitCode.USAGE, "--fix mends what is here: not with --snapshot, --paste or --no-probe")
    if (opts.yes or opts.dry_run) and not opts.fix:
        raise CommandError(ExitCode.USAGE, "--yes and --dry-run are for --fix")
    subject = MachineSource(
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
        _list(opts, subject)
    else:
        raise typer.Exit(_judge(opts, subject))


def _judge(opts: DoctorOptions, subject: MachineSource) -> int:
    from gpuenv.cli.diagnosis import allowed, examine, read_settings, show_phases
    from gpuenv.cli.output import How, check_places, emit_report, read_formats, read_history

    wanted = read_formats(opts.formats, opts.output)
    if opts.smoke is not None:
        check_places(entry.path for entry in wanted)
    left_out = _left_out(opts)
    allowances = allowed(read_settings(opts.config, no_config=opts.no_config))

    def terms_of(_: Snapshot) -> DiagnosisOptions:
        from gpuenv.doctor.diagnose import DiagnosisOptions

        return DiagnosisOptions(no_gpu=opts.expect_no_gpu, left_out=left_out, allowances=allowances, day=today())

    history = read_history(opts.history)
    proof = None
    if opts.smoke:
        from gpuenv.cli.gpu_tests import Proof

        proof = Proof(opts.smoke)
    examined = partial(examine, subject, opts.matrix, terms_of, proof=proof)
    report = examined()
    if opts.fix:
        from gpuenv.cli.fix import fix

        report = fix(report, examined, opts, subject, wanted)
    emit_report(report, wanted, How(verbose=opts.verbose, color=not opts.no_color, redact=opts.redact, history=history))
    if opts.verbose:
        show_phases(report.snapshot)
    return report.exit_code


def _list(opts: DoctorOptions, subject: MachineSource) -> None:
    """Every check: its code, its title and its causes."""
    from gpuenv.cli.diagnosis import allowed, plugins, read_settings
    from gpuenv.cli.inputs import validate_assumptions
    from gpuenv.cli.output import OWN, emit_record, read_formats
    from gpuenv.doctor.registry import all_checks
    from gpuenv.model.documents import Checks, ListedCheck
    from gpuenv.report.lines import Line
    from gpuenv.report.reference import list_lines, listed_checks

    wanted = read_formats(opts.formats, opts.output, OWN)
    _left_out(opts)
    allowed(read_settings(opts.config, no_config=opts.no_config))
    validate_assumptions(subject, opts.matrix)
    of_plugins = (ListedCheck(plugin.code, plugin.function, (), plugin.package) for plugin in plugins())
    listed = Checks((*listed_checks(all_checks()), *of_plugins))
    others = [Line(f"{plugin.code}  brought by {plugin.package} ({plugin.function})", hang=8) for plugin in plugins()]
    emit_record(listed, lambda: [*list_lines(all_checks()), *others], wanted, color=not opts.no_color)


def _left_out(opts: DoctorOptions) -> frozenset[str]:
    """The codes of the checks that ``--only`` and ``--skip`` leave out.

    Raises:
        CommandError: for a code that no check has.
    """
    if not opts.only and not opts.skip:
        return frozenset()
    from gpuenv.cli.diagnosis import known_codes
    from gpuenv.doctor.registry import all_checks

    checks = {check.code: check for check in all_checks()}
    codes = known_codes()
    wanted = {_known(code, codes) for code in opts.only or ()}
    unwanted = {_known(code, codes) for code in opts.skip or ()}
    if wanted:
        for code in reversed(checks):  # what a check requires is registered before it
            if code in wanted:
                wanted |= {*checks[code].requires, *checks[code].unless}
    return frozenset(code for code in codes if (wanted and code not in wanted) or code in unwanted)


def _known(code: str, codes: Sequence[str]) -> str:
    if code.upper() in codes:
        return code.upper()
    import difflib

    near = difflib.get_close_matches(code.upper(), codes, 1)
    remedy = f"did you mean {near[0]}? " if near else ""
    raise CommandError(ExitCode.USAGE, f"there is no check {code}", f"{remedy}gpuenv doctor --list names them")
