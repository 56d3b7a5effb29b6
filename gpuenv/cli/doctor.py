"""``gpuenv doctor``."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from gpuenv.cli import options
from gpuenv.cli.gather import Subject, get_both


def doctor(
    python: options.Python = None,
    snapshot: options.SnapshotFile = None,
    assume: options.Assume = None,
    no_probe: options.NoProbe = False,
    expect_no_gpu: Annotated[bool, typer.Option("--expect-no-gpu", help="No GPU is expected here.")] = False,
    matrix: options.MatrixFile = None,
    formats: options.Formats = None,
    output: options.OutputFile = None,
    history: options.History = None,
    offline: options.Offline = False,
    no_color: options.NoColor = False,
    verbose: options.Verbose = False,
    timeout: options.Timeout = 30.0,
    redact: options.Redact = True,
    driver_root: options.DriverRoot = "/",
) -> None:
    """Probe the machine and the target environment, and name the one true cause and its cure.

    Exit code: 0 fit, 1 unfit, 8 could not be told. With -v, every check, and on standard error where the time went.
    """
    del offline  # nothing here uses the network
    from gpuenv.cli.formats import How, emit_report, read_formats
    from gpuenv.cli.history import read_history
    from gpuenv.doctor.diagnose import diagnose
    from gpuenv.matrix.resolve import resolve
    from gpuenv.report.report import make_report

    wanted = read_formats(formats, output)
    started = time.monotonic()
    subject = Subject(python, snapshot, assume or (), no_probe, timeout, driver_root)
    facts, rows = get_both(subject, matrix)
    resolution = resolve(facts, rows)
    diagnosis = diagnose(facts, rows, resolution, time.monotonic, expect_no_gpu=expect_no_gpu)
    report = make_report(diagnosis, resolution, facts, time.monotonic() - started, expect_no_gpu=expect_no_gpu)
    how = How(verbose=verbose, color=not no_color, redact=redact, history=lambda: read_history(history))
    emit_report(report, wanted, how)
    if verbose:
        from gpuenv.cli.output import write_stderr
        from gpuenv.report.phases import phase_lines

        write_stderr(phase_lines(facts))
    raise typer.Exit(report.exit_code)
