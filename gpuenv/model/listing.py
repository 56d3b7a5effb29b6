"""What a word means, and what there is to choose from: the checks, the GPU tests, the keys of requirements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuenv.model.causes import Cause
from gpuenv.model.finding import Fix

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
        code: stable.
        title: what it looks for.
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
        title: one sentence.
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
        title: what it proves.
        tolerance: how far the GPU may be off, and why.
        needs: what must be there.
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
