"""``gpuenv matrix``."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.command_errors import CommandError, extra_command, usage_errors
from gpuenv.cli.sources import get_matrix
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.matrix.tables import Matrix

app = typer.Typer(
    help="Show, check, refresh or update the compatibility matrix.", no_args_is_help=True, rich_markup_mode=None
)


class SummaryFormat(str, Enum):
    """Output formats of a refresh."""

    TEXT = "text"
    MARKDOWN = "markdown"


class ShowFormat(str, Enum):
    """Output formats of the matrix."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"


@app.command("check")
@options.with_common_options
def check(
    matrix: options.MatrixFile = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Write the file in canonical form: quotes, order of keys, one fact per line.")
    ] = False,
    verbose: options.Verbose = False,
) -> None:
    """Validate the matrix; report every error with its line.

    Also resolves every machine profile with it.

    Exit code: 0 valid, 6 invalid.
    """
    from gpuenv.cli.matrix_format import fix_format, is_canonical
    from gpuenv.cli.output import write_stdout

    if fix:
        write_stdout(f"{fix_format(matrix)}\n")
    rows = get_matrix(matrix, from_yaml=True)
    releases = sum(len(line.releases) for line in rows.wheel_lines)
    write_stdout(
        f"valid: revision {rows.revision}, {releases} releases in {len(rows.wheel_lines)} wheel lines, "
        f"{len(rows.cuda_minors)} CUDA minors, {len(rows.driver_branches)} driver branches, "
        f"{len(rows.products) + len(rows.older_products)} GPU products, {len(rows.sources)} sources\n"
    )
    write_stdout("".join(f"{line}\n" for line in _machine_lines(rows, verbose=verbose)))
    if not fix and not is_canonical(matrix):
        write_stdout("not in canonical form; to write it: gpuenv matrix check --fix\n")


def _machine_lines(matrix: Matrix, *, verbose: bool) -> Iterator[str]:
    """The wheel for every machine profile, or why there is none.

    Raises:
        CommandError: when a machine gets neither a wheel nor a reason: the matrix has no rows for it.
    """
    from gpuenv.matrix.resolve import resolve_all
    from gpuenv.simulate.profile import shipped_machines

    machines = shipped_machines(matrix)
    without = 0
    for name, resolution in zip(machines, resolve_all(machines.values(), matrix, wheels_only=True), strict=True):
        if resolution.wheel is None and not resolution.rejected:
            raise CommandError(ExitCode.MATRIX_INVALID, f"{name}: no wheel is named for it, and no reason is given")
        without += resolution.wheel is None
        if verbose:
            yield f"  {name}: {' '.join(resolution.wheel.requirements) if resolution.wheel else 'none'}"
        if verbose and resolution.wheel is None:
            shown: set[str] = set()
            for entry in resolution.rejected:  # the newest release of each line comes first
                if entry.candidate.name not in shown:
                    shown.add(entry.candidate.name)
                    yield f"    not {entry.candidate.label}: needs {entry.needed}, found {entry.found}"
    yield f"{len(machines)} machine profiles: {len(machines) - without} resolve, {without} do not, each for a reason"


@app.command("show")
@options.with_common_options
def show(
    matrix: options.MatrixFile = None,
    full: Annotated[bool, typer.Option("--full", help="Every row with its sources, instead of the overview.")] = False,
    row: Annotated[
        Optional[str], typer.Option("--row", metavar="ROW", help="One row, such as cuda/12.9 or driver/580.")
    ] = None,
    line: Annotated[
        Optional[str], typer.Option("--line", metavar="LINE", help="Rows about a wheel line, such as 13x.")
    ] = None,
    gpu: Annotated[Optional[str], typer.Option("--gpu", metavar="NAME", help="Rows about a GPU, such as V100.")] = None,
    driver: Annotated[
        Optional[str], typer.Option("--driver", metavar="VERSION", help="Rows about a driver, such as 580.")
    ] = None,
    output_format: Annotated[ShowFormat, typer.Option("--format", help="Output format.")] = ShowFormat.TEXT,
    output: options.OutputFile = None,
    no_color: options.NoColor = False,
) -> None:
    """Print an overview of the matrix, or rows with their sources.

    --format html writes a page with the whole matrix. --format json writes the whole matrix as gpuenv.matrix/1, and
    selected rows as gpuenv.matrix-rows/1.
    """
    from gpuenv.cli.output import emit_json, emit_lines, write_result
    from gpuenv.clock import days_since
    from gpuenv.matrix.grid import build_grid
    from gpuenv.matrix.row_lookup import RowFilter, select_rows
    from gpuenv.report.matrix_page import page
    from gpuenv.report.matrix_table import overview_lines, overview_markdown, row_lines, row_markdown

    rows = get_matrix(matrix)
    wanted = RowFilter(row, line, gpu, driver)
    if output_format is ShowFormat.HTML:
        if wanted != RowFilter():
            raise CommandError(
                ExitCode.USAGE, "the HTML page shows the whole matrix: leave out --row, --line, --gpu and --driver"
            )
        write_result(page(rows, build_grid(rows)), output, shared=True)
        return
    if output_format is ShowFormat.JSON and wanted == RowFilter():
        emit_json(rows, output, redacted=False)
        return
    if wanted == RowFilter() and not full:
        overview = overview_markdown if output_format is ShowFormat.MARKDOWN else overview_lines
        lines = overview(rows, days_since(rows.revision))
        emit_lines(lines, output, color=not no_color, redacted=False)
        return
    with usage_errors(ValueError):
        found = select_rows(rows, wanted)
    if output_format is ShowFormat.JSON:
        emit_json(found, output, redacted=False)
    else:
        lines = row_markdown(found) if output_format is ShowFormat.MARKDOWN else row_lines(found)
        emit_lines(lines, output, color=not no_color, redacted=False)


@app.command("refresh")
@options.with_common_options
def refresh(
    matrix: Annotated[Optional[Path], typer.Option("--matrix", metavar="FILE", help="Matrix to update.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Measure and report; write nothing.")] = False,
    index: Annotated[
        Optional[str],
        typer.Option(
            "--index", metavar="uv|pip", help="Tool that reaches the package index. Default: uv, if installed."
        ),
    ] = None,
    again: Annotated[
        Optional[list[str]],
        typer.Option("--again", metavar="ROW", help="Measure an existing row again, such as cupy-cuda13x/14.2.0."),
    ] = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 if there is something new, as git diff does.")
    ] = False,
    output_format: Annotated[SummaryFormat, typer.Option("--format", help="Output format.")] = SummaryFormat.TEXT,
    output: options.OutputFile = None,
) -> None:
    """Measure new releases on the package index, and add them.

    Uses the configuration of uv or pip. An interrupted refresh continues where it stopped. An error leaves the matrix
    unchanged. A new wheel line is only reported, because its driver requirement is documented, not measured.

    Exit code: 0 done, 1 with --exit-code: something is new, 6 the matrix would be invalid, 8 something could not be
    queried or measured.
    """
    from gpuenv.cli.command_errors import progress

    progress("looking for new releases on the package index")  # importing the rest takes most of a second

    try:
        from gpuenv.cli.matrix_refresh import check_summary_file, refresh_matrix
        from gpuenv.cli.refresh_context import IndexClient
    except ModuleNotFoundError as error:
        message = f"measuring needs the refresh extra of gpuenv: {error}"
        raise CommandError(ExitCode.USAGE, message, extra_command("refresh")) from error
    from gpuenv.cli.output import write_result, write_stdout

    try:
        installer = IndexClient(index) if index is not None else None
    except ValueError as error:
        raise CommandError(ExitCode.USAGE, f"--index {index}: expected uv or pip") from error
    if output is not None:
        check_summary_file(output, matrix)
    summary = refresh_matrix(matrix, installer, again or (), dry_run=dry_run)
    lines = summary.markdown if output_format is SummaryFormat.MARKDOWN else summary.text
    text = "".join(f"{line}\n" for line in lines)
    try:
        write_result(text, output)
    except CommandError:
        write_stdout(text)  # the matrix is written, and what was measured is not measured again
        raise
    if exit_code and summary.changes:
        raise typer.Exit(ExitCode.UNFIT)


@app.command("update")
@options.with_common_options
def update(
    source: Annotated[
        Optional[str],
        typer.Argument(
            metavar="[SOURCE]",
            envvar="GPUENV_MATRIX_URL",
            help="A published matrix: an https address, a file, or a folder with matrix.json and matrix.json.sha256.",
        ),
    ] = None,
    sha256: Annotated[
        Optional[str],
        typer.Option("--sha256", metavar="DIGEST", help="Digest of the matrix. Default: the one in SOURCE.sha256."),
    ] = None,
    snapshot: Annotated[
        Optional[list[Path]],
        typer.Option("--snapshot", metavar="FILE", help="Show whether this recorded machine is affected. Repeatable."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change; write nothing.")] = False,
    no_color: options.NoColor = False,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=0.1, max=3600, help="Time limit for the downloads."),
    ] = options.TIMEOUT,
) -> None:
    """Copy a newer published matrix to your data folder.

    The matrix must match its digest, be valid, and be newer than the one in use. The former one is kept.
    GPUENV_MATRIX_URL sets a default SOURCE.

    Exit code: 0 done or up to date, 2 SOURCE or its digest is missing, or it is older, 6 it is invalid or does not
    match its digest, 8 it could not be downloaded.
    """
    from gpuenv.cli.matrix_update import update_matrix
    from gpuenv.cli.output import emit_lines

    lines = update_matrix(source, sha256, snapshot or (), timeout, dry_run=dry_run)
    emit_lines(lines, None, color=not no_color)
