"""Readings: facts with their source and the answers of other sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

ASSUMED = "assumed"
PASTED = "pasted "  # prefix of the sources of a paste


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """The answer of one source."""

    value: T
    source: str


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """A fact: its value and source, the answers of other sources, and the reason if the value is missing."""

    value: T | None = None
    source: str | None = None
    others: tuple[Answer[T], ...] = ()
    reason: str | None = None

    @property
    def known(self) -> bool:
        """Whether there is a value; a value may state a known absence."""
        return self.value is not None

    @property
    def dissent(self) -> tuple[Answer[T], ...]:
        """The other answers that differ from the value."""
        return tuple(answer for answer in self.others if answer.value != self.value)


def known(value: T, source: str) -> Reading[T]:
    """Returns a fact from one source."""
    return Reading(value, source)


def missing(reason: str) -> Reading[T]:
    """Returns a missing fact and its reason."""
    return Reading(reason=reason)


def assumed(value: T) -> Reading[T]:
    """Returns a fact that the caller assumes."""
    return Reading(value, ASSUMED)


def settle(answers: Sequence[Answer[T] | None], reason: str) -> Reading[T]:
    """Returns the first answer as the value and keeps the others.

    Args:
        answers: of each source, the most trusted first; None for a source without an answer.
        reason: why the fact is missing, for the case that no source has it.
    """
    available = [answer for answer in answers if answer is not None]
    if not available:
        return Reading(reason=reason)
    first, *others = available
    return Reading(first.value, first.source, tuple(others))
