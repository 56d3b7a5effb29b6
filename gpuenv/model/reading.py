"""A fact with its source, and what the other sources said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

ASSUMED = "assumed"
PASTED = "pasted "  # the beginning of the sources of a paste


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What one source said."""

    value: T
    source: str


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """The value settled on, who said it, what the others said, and why there is none when there is none."""

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
    """A fact nobody could tell, and why."""
    return Reading(reason=reason)


def assumed(value: T) -> Reading[T]:
    """A fact the caller told to assume."""
    return Reading(value, ASSUMED)


def settle(answers: Sequence[Answer[T] | None], reason: str) -> Reading[T]:
    """The first answer in the order of trust wins; the rest are kept beside it.

    Args:
        answers: what each source said, the most trusted first; None where it said nothing.
        reason: why the fact is missing, should nobody have answered.
    """
    given = [answer for answer in answers if answer is not None]
    if not given:
        return Reading(reason=reason)
    first, *others = given
    return Reading(first.value, first.source, tuple(others))
