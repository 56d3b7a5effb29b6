"""``gpuenv doctor``."""

# Annotations are no texts here: Typer reads them at every start, and to make sense of texts takes twice as long.

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.errors import CommandError
from gpuenv.cli.inputs import Subject
from gpuenv.cli.settings import ConfigFile, NoConfig, allowed, read_settings, today
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.doctor.diagnose import Terms
    from gpuenv.model.snapshot import Snapshot


def doctor(
    python: options.Python = None,
    snapshot: options.SnapshotFile = None,
    assume: options.Assume = None,
    no_probe: options.NoProbe = False,
    paste: options.Paste = None,
    list_checks: Annotated[bool, typer.Option("--list", help="List the checks and end.")] = False,
    only: Annotated[
        Optional[list[str]], typer.Option(metavar="CODE", help="This check and those that it needs. Repeatable.")
    ] = None,
    skip: Annotated[Optional[list[str]], typer.Option(metavar="CODE", help="Leave a check out. Repeatable.")] = None,
    expect_no_gpu: Annotated[bool, typer.Option("--expect-no-gpu", help="No GPU is expected here.")] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Mend what may be mended inside the target; the plan is shown first.")
    ] = False,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    config: ConfigFile = None,
    no_config: NoConfig = False,
    matrix: options.MatrixFile = None,
    formats: options.Formats = None,
    output: options.OutputFile = None,
    history: options.History = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Never use the network: for --fix, what the cache of uv holds.")
    ] = False,
    no_color: options.NoColor = False,
    verbose: options.Verbose = False,
    timeout: options.Timeout = options.TIMEOUT,
    smoke: options.Smoke = None,
    deep: options.Deep = False,
    redact: options.Redact = True,
    driver_root: options.DriverRoot = "/",
) -> None:
    """Name the one true cause of what is broken, and its cure.

    The machine and the target environment are probed.

    Exit code: 0 fit, 1 unfit, 8 could not be told. With -v, every check, and on standard error where the time went.
    """
    if fix and (snapshot is not None or no_probe):
        raise CommandError(ExitCode.USAGE, "--fix mends what is here: not with --snapshot or --no-probe")
    if (yes or dry_run) and not fix:
        raise CommandError(ExitCode.USAGE, "--yes and --dry-run are for --fix")
    from gpuenv.cli.examine import examine, show_phases
    from gpuenv.cli.formats import How, emit_report, read_formats
    from gpuenv.cli.gpu_tests import Proof
    from gpuenv.cli.history import read_history

    if list_checks:
        _list(no_color=no_color)
        raise typer.Exit
    wanted = read_formats(formats, output)
    left_out = _left_out(only or (), skip or ())
    allowances = allowed(read_settings(config, no_config=no_config))

    def terms_of(_: "Snapshot") -> "Terms":
        from gpuenv.doctor.diagnose import Terms

        return Terms(no_gpu=expect_no_gpu, left_out=left_out, allowances=allowances, day=today())

    subject = Subject(python, snapshot, assume or (), no_probe, timeout, driver_root, deep=deep, paste=paste)
    proof = Proof(smoke) if smoke else None
    report = examine(subject, matrix, terms_of, proof=proof)
    if fix:
        from gpuenv.cli.changing.fixing import Wish, mend
        from gpuenv.cli.output import Output

        as_json = any(entry.form == "json" and entry.path is None for entry in wanted)
        out = Output(None, as_json, not no_color, redact, verbose)
        wish = Wish(subject, matrix, yes, dry_run, offline, out)
        report = mend(report, lambda: examine(subject, matrix, terms_of, proof=proof), wish)
    how = How(verbose=verbose, color=not no_color, redact=redact, history=lambda: read_history(history))
    emit_report(report, wanted, how)
    if verbose:
        show_phases(report.snapshot)
    raise typer.Exit(report.exit_code)


def _list(*, no_color: bool) -> None:
    """Every check: its code, its title and the causes that it can name."""
    from gpuenv.cli.output import emit_lines
    from gpuenv.cli.plugins import plugins
    from gpuenv.doctor.registry import all_checks
    from gpuenv.report.explained import list_lines
    from gpuenv.report.text import Line

    others = [Line(f"{plugin.code}  brought by {plugin.package} ({plugin.function})", hang=8) for plugin in plugins()]
    emit_lines([*list_lines(all_checks()), *others], None, color=not no_color)


def _left_out(only: Sequence[str], skip: Sequence[str]) -> frozenset[str]:
    """The codes of the checks that are not wanted.

    Raises:
        CommandError: for a code that no check has.
    """
    if not only and not skip:
        return frozenset()
    from gpuenv.cli.plugins import known_codes
    from gpuenv.doctor.registry import all_checks

    checks = {check.code: check for check in all_checks()}
    codes = known_codes()
    wanted = {_known(code, codes) for code in only}
    unwanted = {_known(code, codes) for code in skip}
    if wanted:
        for code in reversed(checks):  # what a check requires is registered before it
            if code in wanted:
                wanted |= {*checks[code].requires, *checks[code].unless}
    return frozenset(code for code in codes if (wanted and code not in wanted) or code in unwanted)


def _known(code: str, checks: Sequence[str]) -> str:
    if code.upper() in checks:
        return code.upper()
    import difflib

    near = difflib.get_close_matches(code.upper(), checks, 1)
    remedy = f"did you mean {near[0]}? " if near else ""
    raise CommandError(ExitCode.USAGE, f"there is no check {code}", f"{remedy}gpuenv doctor --list names them")
