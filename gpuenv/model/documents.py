"""What further commands answer: what if, why not, several machines, what differs, and lists of checks and tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuenv.model.causes import Cause
from gpuenv.model.finding import Fix
from gpuenv.model.resolution import Candidate, Change, Rejection

WHAT_IF = "gpuenv.what-if/1"
WHY_NOT = "gpuenv.why-not/1"
FLEET = "gpuenv.fleet/1"


@dataclass(frozen=True, slots=True)
class BetterChoice:
    """A candidate of a line above the one that was chosen, and what it would take."""

    candidate: Candidate
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class AssumedMachine:
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
    better: tuple[BetterChoice, ...]


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The table of answers, in the order in which the values were given."""

    rows: tuple[AssumedMachine, ...]
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
class SharedCause:
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

    answers: tuple[SharedCause, ...]
    unserved: tuple[str, ...]
    matrix_revision: str
    schema: str = FLEET


DIFF = "gpuenv.diff/1"


@dataclass(frozen=True, slots=True)
class SnapshotDifference:
    """A fact that is not the same on both.

    Attributes:
        fact: its path, or the name of an entry: ``target.packages.numpy``.
        there: what it is on the first machine, which works; null where it has none.
        here: what it is on the second one.
        likelihood: how likely it explains the failure, 0 to 1; a rank, no probability that was measured.
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
        findings: what the doctor finds here and not there, the one to fix first at the head.
        try_first: the fix to try first, its steps in order; empty where nothing differs.
        compared: how many facts both machines told.
    """

    schema: str
    differences: tuple[SnapshotDifference, ...]
    findings: tuple[NewFinding, ...]
    try_first: tuple[Fix, ...]
    compared: int


MEANING = "gpuenv.meaning/1"
CHECKS = "gpuenv.checks/1"
TESTS = "gpuenv.tests/1"
REQUIREMENTS = "gpuenv.requirements/1"


@dataclass(frozen=True, slots=True)
class CauseMeaning:
    """A cause, and what is wrong then."""

    cause: Cause
    sentence: str


@dataclass(frozen=True, slots=True)
class CheckMeaning:
    """A check, or a rule of check-image.

    Attributes:
        causes: those that it can name.
        sections: what it means, how it is seen, what to do; of another package's check, its own words.
        package: the distribution that brings it; null for gpuenv's own.
        complaint: why another package's check could not be asked; null where it could.
    """

    code: str
    title: str
    causes: tuple[CauseMeaning, ...]
    sections: Mapping[str, str]
    package: str | None = None
    complaint: str | None = None


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a code, a cause or the name of a message means.

    Attributes:
        subject: the word, as it is spelt here.
        kind: ``code``, ``cause`` or ``message``.
        causes: the cause itself; of a code or a message, those that it can name, the likeliest first.
        checks: the checks that can name the cause; of a code, its own.
        fix: what to do where no check looks for the cause.
        demonstration: always null; earlier versions had a command that showed the mistake and its fix.
        source: where a message was read.
        would_decide: the fact that would settle which cause a message has; null where none would.
    """

    subject: str
    kind: str
    title: str
    causes: tuple[CauseMeaning, ...]
    checks: tuple[CheckMeaning, ...] = ()
    fix: tuple[Fix, ...] = ()
    demonstration: tuple[str, ...] | None = None
    source: str | None = None
    would_decide: str | None = None
    schema: str = MEANING


@dataclass(frozen=True, slots=True)
class ListedCheck:
    """A check; of another package's, the title is where its function is, and its causes are not known beforehand."""

    code: str
    title: str
    causes: tuple[Cause, ...]
    package: str | None = None


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks of the doctor."""

    checks: tuple[ListedCheck, ...]
    schema: str = CHECKS


@dataclass(frozen=True, slots=True)
class ListedTest:
    """A GPU test.

    Attributes:
        name: ``blas.matmul_f32``.
        group: ``blas``.
        level: the lowest that it is in.
        tolerance: how far the GPU may be off, and why.
    """

    name: str
    group: str
    level: str
    title: str
    tolerance: str
    needs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tests:
    """The GPU tests."""

    __test__ = False  # no test of pytest's

    tests: tuple[ListedTest, ...]
    schema: str = TESTS


@dataclass(frozen=True, slots=True)
class ListedKey:
    """A key that a requirement may have."""

    name: str
    meaning: str
    example: str
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Requirements:
    """What may be required: the keys, and the grammar in a few lines."""

    keys: tuple[ListedKey, ...]
    grammar: tuple[str, ...]
    schema: str = REQUIREMENTS
