"""What the doctor says: findings with evidence and cure, and how each check went."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeVar

from gpuenv.model.allowance import Allowance
from gpuenv.model.causes import Cause, Fix

__all__ = ["CheckRun", "CheckStatus", "Evidence", "Finding", "Fix", "Found", "Severity", "ranked"]


class Severity(str, Enum):
    """How much a finding matters: an error stops GPU work, a warning may, a note does not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class CheckStatus(str, Enum):
    """How a check went."""

    CLEAN = "clean"
    FOUND = "found"
    SKIPPED = "skipped"
    CRASHED = "crashed"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A fact behind a finding: a Snapshot path or a few words, its value, and where it came from."""

    fact: str
    value: str
    source: str

    @property
    def to_the_point(self) -> bool:
        """Whether it speaks for the finding; some is told so that nobody takes it for a reason."""
        return not self.source.startswith("not to the point")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong.

    Attributes:
        code: stable, such as DRV102.
        cause: the root cause.
        severity: how much it matters.
        primary: whether this is the one to cure first.
        follows_from: the code of the finding that this is a consequence of.
        title: one sentence.
        evidence: the facts behind it.
        fix: what to do, the best first.
        docs: where to read more: the ``gpuenv explain`` of its code.
        allowed: the entry of the caller's allow-list that makes a note of it; null where there is none.
    """

    code: str
    cause: Cause
    severity: Severity
    primary: bool
    follows_from: str | None
    title: str
    evidence: tuple[Evidence, ...]
    fix: tuple[Fix, ...]
    docs: str
    allowed: Allowance | None = None


@dataclass(frozen=True, slots=True)
class CheckRun:
    """How one check went; ``duration`` is in seconds.

    Attributes:
        code: of the check.
        status: how it went.
        reason: why it was skipped, or how it crashed.
        duration: seconds.
        undecided: whether it was asked and could not tell, which is neither clean nor a fault.
    """

    code: str
    status: CheckStatus
    reason: str | None
    duration: float
    undecided: bool = False


Found = TypeVar("Found", bound=Finding)


def ranked(findings: Iterable[Found], follows: Callable[[Found, Found], bool]) -> tuple[Found, ...]:
    """Errors, warnings, notes, each in their order; the first error is the one to cure first.

    Args:
        findings: in the order of what found them, none of them primary.
        follows: whether the first one is a consequence of the second, that error.
    """
    order = list(Severity)
    in_order = sorted(findings, key=lambda finding: order.index(finding.severity))
    if not in_order or in_order[0].severity is not Severity.ERROR:
        return tuple(in_order)
    primary = replace(in_order[0], primary=True)
    others = (replace(entry, follows_from=primary.code) if follows(entry, primary) else entry for entry in in_order[1:])
    return (primary, *others)
