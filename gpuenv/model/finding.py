"""What the doctor reports: findings with evidence and fix, how each check went, requirements, and what was repaired."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple, TypeVar

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


class Evidence(NamedTuple):
    """A fact behind a finding: a Snapshot path or a few words, its value, and where it came from."""

    fact: str
    value: str
    source: str

    @property
    def to_the_point(self) -> bool:
        """Whether it supports the finding; some evidence is listed so that it is not taken for a reason."""
        return not self.source.startswith("irrelevant")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong.

    Attributes:
        primary: whether this is the one to fix first.
        follows_from: the code of the finding that this is a consequence of.
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
    allowed: Suppression | None = None


class CheckRun(NamedTuple):
    """How one check went; ``duration`` is in seconds.

    Attributes:
        undecided: whether it was asked and could not tell, which is neither clean nor a fault.
    """

    code: str
    status: CheckStatus
    reason: str | None
    duration: float
    undecided: bool = False


Found = TypeVar("Found", bound=Finding)


def ranked(findings: Iterable[Found], follows: Callable[[Found, Found], bool]) -> tuple[Found, ...]:
    """Errors, warnings, notes, each in their order; the first error is the one to fix first.

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


class Suppression(NamedTuple):
    """An entry of the allow-list: a finding that is known and accepted until a day.

    Attributes:
        code: of the check, such as GPU206.
        reason: why it is accepted, in the words of the configuration.
        expires: the last day on which it counts, ISO 8601.
        source: where it stands: ``gpuenv.toml: line 3``.
        file: that file, as the caller would write its path.
    """

    code: str
    reason: str
    expires: str
    source: str
    file: str | None = None
    line: int | None = None

    def has_expired(self, today: str) -> bool:
        """Whether its last day is over; ``today`` is an ISO date, and empty where the day is unknown."""
        return bool(today) and self.expires < today


class SuppressionState(str, Enum):
    """What became of an entry: it allowed a finding, its day is over, or there was nothing to allow."""

    USED = "used"
    EXPIRED = "expired"
    UNUSED = "unused"


class SuppressionResult(NamedTuple):
    """An entry of the allow-list, and what became of it."""

    allowance: Suppression
    state: SuppressionState


class RequirementStatus(str, Enum):
    """Met, violated, or unknown for want of a fact."""

    MET = "met"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


class RequirementResult(NamedTuple):
    """One requirement, held against a machine.

    Attributes:
        text: the requirement as it was written.
        key: what it is about, such as ``memory``.
        found: what the machine has, in a few words.
        evidence: the facts behind that, each with its Snapshot path.
        missing: the fact that is not known; null unless the status is unknown.
        of_host: whether another host could meet it: a GPU's memory, but not the CuPy in the environment.
        by_absence: whether there is none of it, or there are too few, which a fault of the driver or of a GPU may have
            brought about; that something is there and is of another kind has nothing to do with such a fault.
        by_unusable: whether it would be met if every GPU that the machine lists could be used: one that is lost, or
            that a variable hides, is then the reason.
        source: who asks: ``--require``, or a file and its line.
        file: that file, as the caller would write its path; null for the command line.
    """

    text: str
    key: str
    status: RequirementStatus
    found: str
    evidence: tuple[Evidence, ...]
    missing: str | None
    of_host: bool
    source: str
    file: str | None = None
    line: int | None = None
    by_absence: bool = False
    by_unusable: bool = False


class RepairStatus(str, Enum):
    """How a repair ended: nothing that gpuenv may repair, planned, done, undone, or failed before a change."""

    PLANNED = "planned"
    NOTHING = "nothing-to-mend"
    MENDED = "mended"
    RESTORED = "restored"
    NOT_RESTORED = "not-restored"
    FAILED = "failed"


class Repair(NamedTuple):
    """What was done.

    Attributes:
        gone: the codes of findings that are there no more.
        left: the codes of findings that are left, errors and warnings: their cures are for a person.
        transaction: the number to roll back; null where nothing was changed.
        undo: how it is undone, as an argv list; null where there is nothing to undo.
        plan: what would be done, line by line, where that was only to be shown.
    """

    status: RepairStatus
    message: str
    gone: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    transaction: str | None = None
    undo: tuple[str, ...] | None = None
    plan: tuple[str, ...] = ()
