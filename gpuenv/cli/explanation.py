"""The explanation of an error text with the facts of the machine that the options select."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.sources import MachineSource, get_machine_and_matrix, validate_options

if TYPE_CHECKING:
    from gpuenv.explain.explanation_types import Explanation
    from gpuenv.matrix.tables import Matrix
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.paste.error_text import ScannedText


def explain_text(
    text: ScannedText, source: MachineSource, matrix: Path | None, *, name: str | None = None
) -> Explanation:
    """Explains a text; ``name`` is its file, which the commands for a pasted machine name.

    Raises:
        CommandError: when the machine's facts or the matrix cannot be read or understood.
    """
    from gpuenv.paste import error_text

    is_needed = False

    def get_machine() -> tuple[Snapshot, Matrix]:
        nonlocal is_needed
        is_needed = True
        return get_machine_and_matrix(source, matrix)

    explanation = error_text.explain_text(
        text, get_machine, time.monotonic, is_of_text=source.no_probe, assumed=source.assume, name=name
    )
    if not is_needed:
        validate_options(source, matrix)
    return explanation
