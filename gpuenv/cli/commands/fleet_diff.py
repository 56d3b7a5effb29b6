"""``gpuenv fleet diff``."""

from __future__ import annotations

from gpuenv.cli import options
from gpuenv.cli.fleet_source import Source, read_fleet
from gpuenv.cli.sources import get_matrix


def diff(
    before: Source,
    after: Source,
    matrix: options.MatrixFile = None,
    output_format: options.OutputFormat = options.Format.TEXT,
    output: options.OutputFile = None,
    no_color: options.NoColor = False,
) -> None:
    """Compare two sets of node reports, such as those of two days.

    Lists nodes that are new, missing, changed, or switching between fit and unfit, and what changed.

    Exit code: 0.
    """
    from gpuenv.cli.output import Output
    from gpuenv.fleet.diff import diff_fleets
    from gpuenv.fleet.text import diff_lines

    found = diff_fleets(read_fleet(before), read_fleet(after), get_matrix(matrix))
    out = Output(output, output_format is options.Format.JSON, not no_color, redacted=False)
    out.emit(found, lambda: diff_lines(found))
