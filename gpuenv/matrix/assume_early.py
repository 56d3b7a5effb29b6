"""Assumptions looked at before there is a matrix: what cannot be understood without one cannot with one. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gpuenv.matrix.assume import AssumeError, assume
from gpuenv.matrix.records import Matrix
from gpuenv.model.snapshot import Snapshot

_NO_ROWS = Matrix("", "", {}, (), (), (), (), (), ())


def refuse_unread(given: Sequence[str]) -> None:
    """Refuses what no matrix would make sense of; which GPUs there are, a matrix alone can tell.

    Args:
        given: texts of the form ``KEY=VALUE``.

    Raises:
        AssumeError: at the first that cannot be understood.
    """
    others = []
    for text in given:
        key, _, value = (part.strip() for part in text.partition("="))
        if key != "gpu":
            others.append(text)
        elif not value:
            raise AssumeError(f"--assume {text}: expected KEY=VALUE, such as driver=580.95.05")
    assume(Snapshot(), others, _NO_ROWS)
