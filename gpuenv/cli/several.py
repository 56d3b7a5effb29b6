"""Several recorded machines at once."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.inputs import Beginning, Subject, get_matrix

if TYPE_CHECKING:
    from gpuenv.matrix.records import Matrix
    from gpuenv.model.snapshot import Snapshot


def get_all(subject: Subject, files: Iterable[Path], path: Path | None) -> tuple[dict[str, Snapshot], Matrix]:
    """Several recorded machines by the names of their files, and the matrix.

    Raises:
        CommandError: as ``get_both`` does.
    """
    with ExitStack() as stack:
        begun = {str(file): stack.enter_context(closing(Beginning(replace(subject, snapshot=file)))) for file in files}
        matrix = get_matrix(path)
        return {name: beginning.finish(matrix) for name, beginning in begun.items()}, matrix
