"""``gpuenv run``."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import Annotated

import typer

from gpuenv.cli import options
from gpuenv.cli.errors import CommandError, OutputClosed, announce, complain
from gpuenv.cli.inputs import Subject


def run(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND", help="The program and its arguments.")],
    python: options.Python = None,
    snapshot: options.SnapshotFile = None,
    assume: options.Assume = None,
    probe: Annotated[
        bool, typer.Option("--probe/--no-probe", help="Ask this machine, where the program's words name a cause. On.")
    ] = True,
    matrix: options.MatrixFile = None,
    no_color: options.NoColor = False,
    timeout: options.Timeout = options.TIMEOUT,
    redact: options.Redact = True,
    driver_root: options.DriverRoot = "/",
) -> None:
    """Run a program untouched, and explain its failure.

    Input, output, signals and the exit code are the program's own. Where it succeeds, nothing is added; where it
    fails, what it said is explained as gpuenv explain does, if a cause is known.

    Exit code: that of the command, as a shell tells it: 127 where there is none such, 126 where it cannot be run.
    """
    from gpuenv.cli.passthrough import die_of, run_through

    if python or snapshot or assume or matrix:  # refused where wrong, before it runs
        from gpuenv.cli.inputs import refuse_unread

        refuse_unread(Subject(python, snapshot, assume or (), not probe, timeout, driver_root), matrix)
    ended = run_through(command)
    if ended.status:
        # The program itself where it is a Python, since that is the environment that failed.
        own = shutil.which(command[0]) if PurePath(command[0]).name.startswith("python") else None
        target = (python or own) if probe and snapshot is None else None
        subject = Subject(target, snapshot, assume or (), not probe and snapshot is None, timeout, driver_root)
        _explain(ended.pieces(), subject, matrix, color=not no_color, redacted=redact)
    if ended.status < 0:
        die_of(-ended.status)
    raise typer.Exit(ended.status)


def _explain(pieces: Iterable[bytes], subject: Subject, matrix: Path | None, *, color: bool, redacted: bool) -> None:
    """Says what is known on standard error; whatever goes wrong with that, the program's exit code stays."""
    from gpuenv.cli.commands.explain import explained, scanned
    from gpuenv.cli.output import emit_lines
    from gpuenv.report.explanation import explanation_text

    try:
        explanation = explained(scanned(pieces), subject, matrix)
    except CommandError as error:
        announce(f"its failure cannot be explained: {error.message}")
        return
    if sys.stderr is None or not explanation.causes or explanation.is_guess:
        return
    sys.stdout, kept = sys.stderr, sys.stdout
    try:
        complain("\ngpuenv: what this failure means")
        with contextlib.suppress(CommandError, OutputClosed):  # nobody is there to read it
            emit_lines(explanation_text(explanation), None, color=color, redacted=redacted)
    finally:
        sys.stdout = kept
