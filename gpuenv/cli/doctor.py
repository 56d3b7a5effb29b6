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
    output_format: options.OutputFormat = options.Format.TEXT,
    output: options.OutputFile = None,
    offline: options.Offline = False,
    no_color: options.NoColor = False,
    verbose: options.Verbose = False,
    timeout: options.Timeout = 30.0,
    deep: options.Deep = False,
    redact: options.Redact = True,
    driver_root: options.DriverRoot = "/",
) -> None:
    """Probe the machine and the target environment, and name the one true cause and its cure.

    Exit code: 0 fit, 1 unfit, 8 could not be told.
    """
    del offline  # nothing here uses the network
    from gpuenv.doctor.diagnose import diagnose
    from gpuenv.matrix.resolve import resolve
    from gpuenv.report.report import make_report

    started = time.monotonic()
    subject = Subject(python, snapshot, assume or (), no_probe, timeout, driver_root, deep=deep)
    facts, rows = get_both(subject, matrix)
    resolution = resolve(facts, rows)
    diagnosis = diagnose(facts, rows, resolution, time.monotonic, expect_no_gpu=expect_no_gpu)
    report = make_report(diagnosis, resolution, facts, time.monotonic() - started, expect_no_gpu=expect_no_gpu)
    if output_format is options.Format.JSON:
        from gpuenv.cli.output import emit_json

        emit_json(report, output, redacted=redact)
    else:
        from gpuenv.cli.output import emit_lines
        from gpuenv.report.text import report_lines

        emit_lines(report_lines(report, verbose=verbose), output, color=not no_color, redacted=redact)
    raise typer.Exit(report.exit_code)
