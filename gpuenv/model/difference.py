"""What differs between two machines, ranked by how likely it explains that CuPy works on one of them alone."""

from __future__ import annotations

from dataclasses import dataclass

from gpuenv.model.causes import Cause
from gpuenv.model.finding import Fix

SCHEMA = "gpuenv.diff/1"


@dataclass(frozen=True, slots=True)
class Difference:
    """A fact that is not the same on both.

    Attributes:
        fact: its path, or the name of an entry: ``target.packages.numpy``.
        there: what it is on the first machine, which works; null where it has none.
        here: what it is on the second one.
        likelihood: how likely it explains the failure, 0 to 1; a rank, no probability that was measured.
        why: what speaks for that.
    """

    fact: str
    there: str | None
    here: str | None
    likelihood: float
    why: str

    @property
    def shown(self) -> tuple[str, str]:
        """What it is there and here, in words."""
        there, here = ("not there" if value is None else value for value in (self.there, self.here))
        return there, here


@dataclass(frozen=True, slots=True)
class NewFinding:
    """A finding that the doctor has on the second machine alone."""

    code: str
    cause: Cause
    title: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two machines side by side.

    Attributes:
        differences: the likeliest explanation first.
        findings: what the doctor finds here and not there, the one to cure first at the head.
        try_first: the cure to try first, its steps in order; empty where nothing differs.
        compared: how many facts both machines told.
    """

    schema: str
    differences: tuple[Difference, ...]
    findings: tuple[NewFinding, ...]
    try_first: tuple[Fix, ...]
    compared: int
