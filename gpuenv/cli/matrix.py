"""``gpuenv matrix``."""

from __future__ import annotations

import sys

import typer

from gpuenv.cli import options
from gpuenv.cli.gather import get_matrix

app = typer.Typer(help="The compatibility matrix.", no_args_is_help=True, rich_markup_mode=None)


@app.command("check")
def check(matrix: options.MatrixFile = None) -> None:
    """Validate the matrix: every fault with its line.

    Exit code: 0 valid, 6 invalid.
    """
    rows = get_matrix(matrix)
    releases = sum(len(line.releases) for line in rows.wheel_lines)
    sys.stdout.write(
        f"valid: revision {rows.revision}, {releases} releases in {len(rows.wheel_lines)} wheel lines, "
        f"{len(rows.cuda_minors)} CUDA minors, {len(rows.driver_branches)} driver branches, "
        f"{len(rows.products)} GPU products, {len(rows.sources)} sources\n"
    )


@app.command("show")
def show(
    matrix: options.MatrixFile = None,
    output: options.OutputFile = None,
) -> None:
    """Print the whole matrix as JSON."""
    from gpuenv.cli.output import emit_json

    emit_json(get_matrix(matrix), output, redacted=False)
