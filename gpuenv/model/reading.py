"""A fact with its source, and the answers of other sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

ASSUMED = "assumed"
PASTED = "pasted "  # the beginning of the sources of a paste


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """The answer of one source."""

    value: T
    source: str


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """The value settled on, its source, the answers of others, and why there is no value where there is none."""

    value: T | None = None
    source: str | None = None
    others: tuple[Answer[T], ...] = ()
    reason: str | None = None

    @property
    def known(self) -> bool:
        """Whether there is a value; a fact that is known to be absent has a value that says so."""
        return self.value is not None

    @property
    def dissent(self) -> tuple[Answer[T], ...]:
        """The other answers that differ from the value settled on."""
        return tuple(answer for answer in self.others if answer.value != self.value)


def known(value: T, source: str) -> Reading[T]:
    """A fact from one source."""
    return Reading(value, source)


def missing(reason: str) -> Reading[T]:
    """A missing fact, and why."""
    return Reading(reason=reason)


def assumed(value: T) -> Reading[T]:
    """A fact that the caller assumes."""
    return Reading(value, ASSUMED)


def settle(answers: Sequence[Answer[T] | None], reason: str) -> Reading[T]:
    """The first answer in the order of trust wins; the rest are kept with it.

    Args:
        answers: of each source, the most trusted first; None where it has none.
        reason: why the fact is missing where no source has it.
    """
    given = [answer for answer in answers if answer is not None]
    if not given:
        return Reading(reason=reason)
    first, *others = given
    return Reading(first.value, first.source, tuple(others))
