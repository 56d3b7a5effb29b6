"""What the doctor says: findings with evidence and cure, and how each check went."""

from __future__ import annotations

from enum import Enum

from gpuenv.model.allowance import Allowance
from gpuenv.model.causes import Cause
from gpuenv.model.record import dataclass


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


@dataclass(frozen=True, slots=True)
class Fix:
    """A cure: in words, as an argv list where one exists, and whether gpuenv may run it inside the target."""

    text: str
    command: tuple[str, ...] | None = None
    safe: bool = False


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
