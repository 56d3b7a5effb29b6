"""The canonical form of a matrix: ``gpuenv matrix check`` reports another one, ``--fix`` writes it."""

from __future__ import annotations

from pathlib import Path

from gpuenv.cli.command_errors import CommandError
from gpuenv.cli.output import write_file
from gpuenv.cli.sources import matrix_errors, matrix_path
from gpuenv.data import data_path
from gpuenv.files import read_at_most
from gpuenv.matrix.canonical import format_matrix
from gpuenv.matrix.load import MAX_BYTES
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import decode_text


def fix_format(path: Path | None) -> str:
    """Writes a matrix in canonical form, also one whose values are not quoted as they must be.

    Returns:
        What was done, as a line.

    Raises:
        CommandError: the matrix is invalid, or cannot be read or written.
    """
    file = matrix_path(path)
    if path is None and file == data_path("matrix.yaml") and not is_in_checkout(file):
        raise CommandError(ExitCode.USAGE, "--fix changes no installed file", "name a file with --matrix")
    with matrix_errors(file):
        text = decode_text(read_at_most(file, MAX_BYTES))
        formatted = format_matrix(text, str(file))
    if formatted == text:
        return f"{file}: is in canonical form"
    write_file(file, formatted, shared=True)
    return f"{file}: written in canonical form"


def is_canonical(path: Path | None) -> bool:
    """Whether a valid matrix is in canonical form."""
    file = matrix_path(path)
    with matrix_errors(file):
        text = decode_text(read_at_most(file, MAX_BYTES))
        return format_matrix(text, str(file)) == text


def is_in_checkout(path: Path) -> bool:
    """Whether a matrix is that of the checkout from which gpuenv runs."""
    shipped = data_path("matrix.yaml")
    return path.resolve() == shipped.resolve() and (shipped.parent / "pyproject.toml").is_file()
