"""``gpuenv resolve``."""

from __future__ import annotations

import typer

from gpuenv.cli import options
from gpuenv.cli.gather import Subject, get_both
from gpuenv.model.exit_codes import ExitCode


def resolve(
    python: options.Python = None,
    snapshot: options.SnapshotFile = None,
    assume: options.Assume = None,
    no_probe: options.NoProbe = False,
    matrix: options.MatrixFile = None,
    output_format: options.OutputFormat = options.Format.TEXT,
    output: options.OutputFile = None,
    offline: options.Offline = False,
    no_color: options.NoColor = False,
    verbose: options.Verbose = False,
    timeout: options.Timeout = 30.0,
    redact: options.Redact = True,
    driver_root: options.DriverRoot = "/",
) -> None:
    """Name the wheel that fits a machine, and why every other one does not.

    Exit code: 0 a wheel fits, 3 none does.
    """
    del offline  # nothing here uses the network
    from gpuenv.matrix.resolve import resolve as resolve_wheel

    subject = Subject(python, snapshot, assume or (), no_probe, timeout, driver_root)
    facts, rows = get_both(subject, matrix)
    resolution = resolve_wheel(facts, rows)
    if output_format is options.Format.JSON:
        from gpuenv.cli.output import emit_json

        emit_json(resolution, output, redacted=redact)
    else:
        from gpuenv.cli.output import emit_lines
        from gpuenv.report.text import explanation_lines

        emit_lines(explanation_lines(resolution, verbose=verbose), output, color=not no_color, redacted=redact)
    raise typer.Exit(ExitCode.OK if resolution.wheel is not None else ExitCode.NOTHING_FITS)
