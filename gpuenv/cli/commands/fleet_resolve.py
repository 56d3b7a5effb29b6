"""``gpuenv fleet resolve``."""

from __future__ import annotations

import typer

from gpuenv.cli import options
from gpuenv.cli.fleet_source import Source, read_fleet
from gpuenv.cli.sources import get_matrix
from gpuenv.model.exit_codes import ExitCode


def resolve(
    source: Source,
    matrix: options.MatrixFile = None,
    output_format: options.OutputFormat = options.Format.TEXT,
    output: options.OutputFile = None,
    no_color: options.NoColor = False,
) -> None:
    """Find the fewest wheels and images that serve all nodes.

    Names the nodes that force each of them.

    Exit code: 0 a wheel fits each node, 3 none fits one of them.
    """
    from gpuenv.cli.output import Output
    from gpuenv.fleet.analysis import group_states, serve
    from gpuenv.fleet.text import service_lines

    partial = read_fleet(source)
    groups = group_states(partial.nodes.values(), partial.samples)
    fleet = serve(groups, partial.samples, get_matrix(matrix), images=True)
    out = Output(output, output_format is options.Format.JSON, not no_color, redacted=False)
    out.emit(fleet, lambda: service_lines(fleet))
    raise typer.Exit(ExitCode.NOTHING_FITS if fleet.unserved or not fleet.answers else ExitCode.OK)
