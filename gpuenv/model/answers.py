"""What a resolver answers beyond one machine: what if, why not, and one answer for several machines."""

from __future__ import annotations

from dataclasses import dataclass

from gpuenv.model.resolution import Candidate, Change, Rejection

WHAT_IF = "gpuenv.what-if/1"
WHY_NOT = "gpuenv.why-not/1"
FLEET = "gpuenv.fleet/1"


@dataclass(frozen=True, slots=True)
class Better:
    """A candidate of a line above the one that was chosen, and what it would take."""

    candidate: Candidate
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Supposed:
    """One row of a table: what was supposed, what fits then, and what each better line would take.

    Attributes:
        given: the assumptions of this row.
        candidate: what fits best then; null where nothing does.
        requirements: what to hand to pip or uv; empty where nothing fits.
        better: the best release of each line above, with the changes that admit it.
    """

    given: tuple[str, ...]
    candidate: Candidate | None
    requirements: tuple[str, ...]
    better: tuple[Better, ...]


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The table of answers, in the order in which the values were given."""

    rows: tuple[Supposed, ...]
    matrix_revision: str
    schema: str = WHAT_IF


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Why a candidate was not chosen.

    Attributes:
        candidate: the one that was meant; its newest release where none was named.
        rejections: what stands against it; empty where it fits.
        changes: what would admit it; null where no change that a user can make does, or none is needed.
        preferred: what was chosen instead of it; null where it was chosen itself, or nothing was.
        matrix_revision: the matrix that was used.
    """

    candidate: Candidate
    rejections: tuple[Rejection, ...]
    changes: tuple[Change, ...] | None
    preferred: Candidate | None
    matrix_revision: str
    schema: str = WHY_NOT


@dataclass(frozen=True, slots=True)
class Shared:
    """One answer, and the machines that it serves."""

    candidate: Candidate
    requirements: tuple[str, ...]
    machines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fleet:
    """The fewest answers that serve several machines.

    Attributes:
        answers: one where a single answer serves all.
        unserved: machines that nothing fits.
        matrix_revision: the matrix that was used.
    """

    answers: tuple[Shared, ...]
    unserved: tuple[str, ...]
    matrix_revision: str
    schema: str = FLEET
