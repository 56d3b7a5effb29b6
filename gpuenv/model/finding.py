"""Findings with evidence and fix, and the results of checks, suppressions, requirements and repairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple, TypeVar

from gpuenv.model.causes import Cause, Fix

__all__ = ["CheckRun", "CheckStatus", "Evidence", "Finding", "Fix", "Found", "Severity", "ranked"]


class Severity(str, Enum):
    """Severity of a finding: an error prevents GPU work, a warning may, a note does not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class CheckStatus(str, Enum):
    """Outcome of a check."""

    CLEAN = "clean"
    FOUND = "found"
    SKIPPED = "skipped"
    CRASHED = "crashed"


class Evidence(NamedTuple):
    """A fact behind a finding: a Snapshot path or a short text, its value and its source."""

    fact: str
    value: str
    source: str

    @property
    def to_the_point(self) -> bool:
        """Whether it supports the finding; some evidence is listed so that it is not taken for a reason."""
        return not self.source.startswith("irrelevant")


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check: something that is wrong.

    Attributes:
        primary: whether this is the finding to fix first.
        follows_from: the code of the finding that explains this one; null without one.
        fix: what to do, the best first.
        docs: the ``gpuenv explain`` command for its code.
        allowed: the suppression that downgrades it to a note; null without one.
        in_image: whether the fault is in the container's image, and therefore occurs on every host.
        docs_url: the page of its code in the documentation site; null unless GPUENV_DOCS_URL has the site's address.
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
    in_image: bool = False
    docs_url: str | None = None


class CheckRun(NamedTuple):
    """Result of one check; ``duration`` is in seconds.

    Attributes:
        undecided: whether the check ran without a conclusion, which is neither clean nor a finding.
    """

    code: str
    status: CheckStatus
    reason: str | None
    duration: float
    undecided: bool = False


Found = TypeVar("Found", bound=Finding)


def ranked(findings: Iterable[Found], follows: Callable[[Found, Found], bool]) -> tuple[Found, ...]:
    """Sorts findings by severity; the first error becomes the primary finding.

    Args:
        findings: in the order of their checks, none of them primary.
        follows: whether a finding is a consequence of the primary one.
    """
    order = list(Severity)
    by_severity = sorted(findings, key=lambda finding: order.index(finding.severity))
    if not by_severity or by_severity[0].severity is not Severity.ERROR:
        return tuple(by_severity)
    primary = replace(by_severity[0], primary=True)
    others = (
        replace(entry, follows_from=primary.code) if follows(entry, primary) else entry for entry in by_severity[1:]
    )
    return (primary, *others)


class Suppression(NamedTuple):
    """A suppression: a finding that the configuration accepts until a date.

    Attributes:
        code: of the check, such as GPU206.
        reason: why it is accepted, as configured.
        expires: the last day it is valid, ISO 8601.
        source: its location: ``gpuenv.toml: line 3``.
        file: path of that file, relative to the caller.
    """

    code: str
    reason: str
    expires: str
    source: str
    file: str | None = None
    line: int | None = None

    def has_expired(self, today: str) -> bool:
        """Whether its last day has passed; ``today`` is an ISO date, or empty if unknown."""
        return bool(today) and self.expires < today


class SuppressionState(str, Enum):
    """State of a suppression: it matched a finding, it expired, or it matched nothing."""

    USED = "used"
    EXPIRED = "expired"
    UNUSED = "unused"


class SuppressionResult(NamedTuple):
    """A suppression and its state."""

    allowance: Suppression
    state: SuppressionState


class RequirementStatus(str, Enum):
    """Met, violated, or unknown because a fact is missing."""

    MET = "met"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


class RequirementResult(NamedTuple):
    """One requirement, evaluated on a machine.

    Attributes:
        text: the requirement as written.
        key: its subject, such as ``memory``.
        found: what the machine has, as a short text.
        evidence: the facts behind that, each with its Snapshot path.
        missing: the unknown fact; null unless the status is unknown.
        of_host: whether another host could meet it: a GPU's memory, but not the CuPy in the environment.
        by_absence: whether something is absent or too few, which a fault of the driver or of a GPU may have caused; a
            different value is unrelated to such a fault.
        by_unusable: whether it would be met if every listed GPU were usable: a lost GPU, or one that a variable hides,
            is then the reason.
        source: ``--require``, or a file and its line.
        file: path of that file, relative to the caller; null for the command line.
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
    """Outcome of a repair: planned, nothing to repair, repaired, rolled back (or not), or failed before a change."""

    PLANNED = "planned"
    NOTHING = "nothing-to-mend"
    REPAIRED = "mended"
    RESTORED = "restored"
    NOT_RESTORED = "not-restored"
    FAILED = "failed"


class Repair(NamedTuple):
    """Result of a repair.

    Attributes:
        gone: codes of the resolved findings.
        left: codes of the remaining errors and warnings, which need manual fixes.
        transaction: to roll back; null if nothing was changed.
        undo: command that undoes it, as an argv list; null if there is nothing to undo.
        plan: lines of the plan in a dry run.
    """

    status: RepairStatus
    message: str
    gone: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    transaction: str | None = None
    undo: tuple[str, ...] | None = None
    plan: tuple[str, ...] = ()
