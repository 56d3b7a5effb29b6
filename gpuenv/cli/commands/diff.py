"""``gpuenv diff``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuenv.cli import options
from gpuenv.cli.sources import get_matrix, read_snapshot

if TYPE_CHECKING:
    from gpuenv.matrix.tables import Matrix
    from gpuenv.model.finding import Finding
    from gpuenv.model.snapshot import Snapshot


def diff(
    working: Annotated[
        Path, typer.Argument(metavar="A", help="Snapshot of the machine that works: gpuenv probe -o A.")
    ],
    broken: Annotated[Path, typer.Argument(metavar="B", help="Snapshot of the machine that does not.")],
    matrix: options.MatrixFile = None,
    output_format: options.OutputFormat = options.Format.TEXT,
    output: options.OutputFile = None,
    offline: options.Offline = False,
    no_color: options.NoColor = False,
    verbose: options.Verbose = False,
    redact: options.Redact = True,
) -> None:
    """Compare a machine that works with one that does not.

    Lists the differences between their snapshots, the likeliest reason first.
    """
    del offline  # nothing here uses the network
    from gpuenv.cli.output import Output
    from gpuenv.doctor.compare import compare
    from gpuenv.report.snapshot_text import difference_lines

    first, second = read_snapshot(working), read_snapshot(broken)
    rows = get_matrix(matrix)
    comparison = compare(first, second, _findings(first, rows), _findings(second, rows))
    out = Output(output, output_format is options.Format.JSON, not no_color, redact)
    out.emit(comparison, lambda: difference_lines(comparison, verbose=verbose))


def _findings(snapshot: Snapshot, matrix: Matrix) -> tuple[Finding, ...]:
    from gpuenv.doctor.diagnose import diagnose

    return diagnose(snapshot, matrix, time.monotonic).findings
