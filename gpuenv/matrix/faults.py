"""What may be wrong with a matrix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, and the path of the row (``wheel_lines[1].releases[0]``)."""

    path: str
    text: str


class MatrixError(Exception):
    """The matrix is invalid; ``faults`` has one text a fault, with file and line."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(self.faults))
