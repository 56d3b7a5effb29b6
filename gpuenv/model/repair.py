"""What ``gpuenv doctor --fix`` has done about what it found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class RepairStatus(str, Enum):
    """How mending ended: nothing that gpuenv may mend, planned, done, put back, or failed before it changed a thing."""

    PLANNED = "planned"
    NOTHING = "nothing-to-mend"
    MENDED = "mended"
    RESTORED = "restored"
    NOT_RESTORED = "not-restored"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Repair:
    """What was done.

    Attributes:
        status: how it ended.
        message: one sentence.
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
