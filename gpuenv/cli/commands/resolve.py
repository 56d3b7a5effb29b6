"""``gpuenv resolve``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.errors import CommandError
from gpuenv.cli.inputs import Subject, get_both
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.cli.output import Output
    from gpuenv.matrix.records import Matrix
    from gpuenv.model.snapshot import Snapshot

Snapshots = Annotated[
    Optional[list[Path]],
    typer.Option(
        "--snapshot",
        metavar="FILE",
        help="Decide for a recorded machine instead of this one; repeated: for all of them.",
    ),
]
WhatIf = Annotated[
    Optional[list[str]],
    typer.Option(
        "--what-if", metavar="KEY=VALUE,VALUE", help="A table of answers, such as driver=580,590. Repeatable: combined."
    ),
]
WhyNot = Annotated[
    Optional[str],
    typer.Option("--why-not", metavar="LINE", help="Why this line, release or image was not chosen."),
]


def resolve(
    python: options.Python = None,
    snapshot: Snapshots = None,
    assume: options.Assume = None,
    no_probe: options.NoProbe = False,
    paste: options.Paste = None,
    what_if: WhatIf = None,
    why_not: WhyNot = None,
    matrix: options.MatrixFile = None,
    output_format: options.OutputFormat = options.Format.TEXT,
    output: options.OutputFile = None,
    offline: options.Offline = False,
    no_color: options.NoColor = False,
    verbose: options.Verbose = False,
    timeout: options.Timeout = options.TIMEOUT,
    redact: options.Redact = True,
    driver_root: options.DriverRoot = "/",
) -> None:
    """Name the wheel that fits a machine, and why no other does.

    The conda specification and the image that fit are named too.

    Exit code: 0 a wheel fits, 3 none does (with --what-if: in no row; with several machines: for one of them).
    """
    del offline  # nothing here uses the network
    from gpuenv.cli.output import Output

    files = snapshot or []
    if (what_if is not None) + (why_not is not None) + (len(files) > 1) > 1:
        raise CommandError(ExitCode.USAGE, "--what-if, --why-not and several --snapshot exclude each other")
    out = Output(output, as_json=output_format is options.Format.JSON, color=not no_color, redacted=redact)
    subject = Subject(python, files[0] if files else None, assume or (), no_probe, timeout, driver_root, paste=paste)
    if what_if is not None:
        _look_over(what_if)
    if len(files) > 1 and paste is None:
        raise typer.Exit(_fleet(subject, files, matrix, out))
    facts, rows = get_both(subject, matrix)
    _tell_what_is_not_counted(facts)
    if what_if is not None:
        raise typer.Exit(_what_if(facts, what_if, rows, out))
    if why_not is not None:
        raise typer.Exit(_why_not(facts, why_not, rows, out))
    raise typer.Exit(_resolve(facts, rows, out, verbose=verbose))


def _tell_what_is_not_counted(facts: Snapshot) -> None:
    """Announces that a target does not answer, or another one answers in its place: the resolution is not for it."""
    from gpuenv.cli.errors import announce
    from gpuenv.model.snapshot import SourceState

    target, state = facts.target, facts.source("target")
    if target.lost_environment.known:
        announce(f"{target.lost_environment.value} has no pyvenv.cfg: what is told is for {target.prefix.value}")
    elif state.state in (SourceState.FAILED, SourceState.CRASHED, SourceState.TIMED_OUT) and not target.python.known:
        announce(
            f"the target's interpreter tells nothing and is not counted: {target.executable.value}: {state.detail}"
        )


def _resolve(facts: Snapshot, rows: Matrix, out: Output, *, verbose: bool) -> int:
    from gpuenv.matrix.resolve import resolve as resolve_wheel
    from gpuenv.report.resolution import explanation_lines

    resolution = resolve_wheel(facts, rows)
    out.emit(resolution, lambda: explanation_lines(resolution, verbose=verbose))
    return _code(resolution.wheel is not None)


def _look_over(given: Iterable[str]) -> None:
    """Refuses wrong values before the matrix is read."""
    from gpuenv.matrix.assume import AssumeError
    from gpuenv.matrix.what_if import refuse_unread_values

    try:
        refuse_unread_values(tuple(given))
    except AssumeError as error:
        raise CommandError(ExitCode.USAGE, str(error)) from error


def _what_if(facts: Snapshot, given: Iterable[str], rows: Matrix, out: Output) -> int:
    from gpuenv.matrix.assume import AssumeError
    from gpuenv.matrix.what_if import what_if
    from gpuenv.report.resolution import what_if_lines

    try:
        answer = what_if(facts, tuple(given), rows)
    except AssumeError as error:
        raise CommandError(ExitCode.USAGE, str(error)) from error
    out.emit(answer, lambda: what_if_lines(answer))
    return _code(any(row.candidate is not None for row in answer.rows))


def _why_not(facts: Snapshot, name: str, rows: Matrix, out: Output) -> int:
    from gpuenv.matrix.resolve import choose
    from gpuenv.matrix.what_if import UnknownCandidateError, why_not
    from gpuenv.report.resolution import why_not_lines

    try:
        answer = why_not(facts, name, rows)
    except UnknownCandidateError as error:
        raise CommandError(ExitCode.USAGE, str(error)) from error
    out.emit(answer, lambda: why_not_lines(answer))
    return _code(choose(facts, rows) is not None)


def _fleet(subject: Subject, files: Iterable[Path], matrix: Path | None, out: Output) -> int:
    from gpuenv.cli.inputs import get_all
    from gpuenv.matrix.what_if import resolve_fleet
    from gpuenv.report.resolution import fleet_lines

    machines, rows = get_all(subject, files, matrix)
    answer = resolve_fleet(machines, rows)
    out.emit(answer, lambda: fleet_lines(answer))
    return _code(not answer.unserved)


def _code(served: bool) -> int:  # noqa: FBT001 - the one thing that decides it
    return ExitCode.OK if served else ExitCode.NOTHING_FITS
