"""``gpuenv doctor``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.errors import CommandError
from gpuenv.cli.gather import Subject
from gpuenv.model.exit_codes import ExitCode


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
    matrix: options.MatrixFile = None,
    formats: options.Formats = None,
    output: options.OutputFile = None,
    history: options.History = None,
    offline: options.Offline = False,
    no_color: options.NoColor = False,
    verbose: options.Verbose = False,
    timeout: options.Timeout = 30.0,
    deep: options.Deep = False,
    redact: options.Redact = True,
    driver_root: options.DriverRoot = "/",
) -> None:
    """Probe the machine and the target environment, and name the one true cause and its cure.

    Exit code: 0 fit, 1 unfit, 8 could not be told. With -v, every check, and on standard error where the time went.
    """
    del offline  # nothing here uses the network
    from gpuenv.cli.examine import examine, show_phases
    from gpuenv.cli.formats import How, emit_report, read_formats
    from gpuenv.cli.history import read_history
    from gpuenv.doctor.diagnose import Terms

    if list_checks:
        _list(no_color=no_color)
        raise typer.Exit
    wanted = read_formats(formats, output)
    terms = Terms(no_gpu=expect_no_gpu, left_out=_left_out(only or (), skip or ()))
    subject = Subject(python, snapshot, assume or (), no_probe, timeout, driver_root, deep=deep, paste=paste)
    report = examine(subject, matrix, lambda _: terms)
    how = How(verbose=verbose, color=not no_color, redact=redact, history=lambda: read_history(history))
    emit_report(report, wanted, how)
    if verbose:
        show_phases(report.snapshot)
    raise typer.Exit(report.exit_code)


def _list(*, no_color: bool) -> None:
    """Every check: its code, its title and the causes that it can name."""
    from gpuenv.cli.output import emit_lines
    from gpuenv.doctor.registry import all_checks
    from gpuenv.report.explained import list_lines

    emit_lines(list_lines(all_checks()), None, color=not no_color)


def _left_out(only: Sequence[str], skip: Sequence[str]) -> frozenset[str]:
    """The codes of the checks that are not wanted.

    Raises:
        CommandError: for a code that no check has.
    """
    if not only and not skip:
        return frozenset()
    from gpuenv.doctor.registry import all_checks

    checks = {check.code: check for check in all_checks()}
    wanted = {_known(code, checks) for code in only}
    unwanted = {_known(code, checks) for code in skip}
    if wanted:
        for code in reversed(checks):  # what a check requires is registered before it
            if code in wanted:
                wanted |= {*checks[code].requires, *checks[code].unless}
    return frozenset(code for code in checks if (wanted and code not in wanted) or code in unwanted)


def _known(code: str, checks: Mapping[str, object]) -> str:
    if code.upper() in checks:
        return code.upper()
    import difflib

    near = difflib.get_close_matches(code.upper(), checks, 1)
    remedy = f"did you mean {near[0]}? " if near else ""
    raise CommandError(ExitCode.USAGE, f"there is no check {code}", f"{remedy}gpuenv doctor --list names them")
