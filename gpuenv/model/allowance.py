"""A finding that the caller's configuration allows for a while, and what became of that."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Allowance:
    """An entry of the allow-list: a finding that is known and accepted until a day.

    Attributes:
        code: of the check, such as GPU206.
        reason: why it is accepted, in the words of the configuration.
        expires: the last day on which it counts, ISO 8601.
        source: where it stands: ``gpuenv.toml: line 3``.
        file: that file, as the caller would write its path.
        line: that line.
    """

    code: str
    reason: str
    expires: str
    source: str
    file: str | None = None
    line: int | None = None

    def has_expired(self, today: str) -> bool:
        """Whether its last day is over; ``today`` is an ISO date, and empty where nobody knows the day."""
        return bool(today) and self.expires < today


class AllowanceState(str, Enum):
    """What became of an entry: it allowed a finding, its day is over, or there was nothing to allow."""

    USED = "used"
    EXPIRED = "expired"
    UNUSED = "unused"


@dataclass(frozen=True, slots=True)
class AllowanceResult:
    """An entry of the allow-list, and what became of it."""

    allowance: Allowance
    state: AllowanceState
