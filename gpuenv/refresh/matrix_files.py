"""The files of a refreshed matrix: the matrix itself, and in a checkout the measured binaries in CSV."""

from __future__ import annotations

from pathlib import Path

from gpuenv.matrix.canonical import comments_in, matrix_text
from gpuenv.matrix.csv_tables import sources_text
from gpuenv.matrix.load import read_values, to_matrix
from gpuenv.matrix.tables import Matrix
from gpuenv.refresh.row_edits import Additions, add_to


def updated_files(
    source: Path, target: Path, additions: Additions, today: str, sources_file: Path | None
) -> tuple[dict[Path, str], Matrix]:
    """The texts of the files in the order in which to write them, and the new matrix, validated.

    Args:
        source: the matrix to which rows are added.
        target: the file to write.
        additions: the new rows.
        today: the new revision, an ISO date.
        sources_file: the CSV file of the measured binaries; None to keep them in the matrix.

    Raises:
        MatrixLayoutError: when the rows cannot be added to the file.
        MatrixError: when the new matrix is invalid.
    """
    text = source.read_text(encoding="utf-8")
    values, lines = read_values(text, str(source))
    comments = comments_in(text, values, lines)
    texts = {}
    add_to(values, additions, today)
    matrix = to_matrix(values, str(source), {})
    if sources_file is not None:
        for row in additions.rows:
            del values["sources"][row.key]
        in_csv = {key: row for key, row in matrix.sources.items() if key not in values["sources"]}
        texts[sources_file] = sources_text(in_csv)
    texts[target] = matrix_text(matrix, values, comments)
    return texts, matrix
