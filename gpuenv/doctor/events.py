"""The events of hardware that the driver reports in the kernel's log. Pure."""

from __future__ import annotations

import re

from gpuenv.model.finding import Evidence
from gpuenv.model.host import KernelMessage
from gpuenv.model.pattern import pattern
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.xid import HARDWARE

_TROUBLE = pattern(
    r"(?i)NVRM: .*(?:\bXid\b|fail|error|cannot|not supported|timed? ?out|no firmware)"
    r"|nvidia\S*:? .*(?:fail|error|\berr -?\d)"
)


def troubles(snapshot: Snapshot, most: int = 3) -> tuple[Evidence, ...]:
    """The newest lines of the kernel's log in which the driver tells of something that went wrong."""
    told = [message.text for message in snapshot.kernel_log.value or () if _TROUBLE.search(message.text)]
    return tuple(Evidence("kernel_log", line, snapshot.kernel_log.source or "") for line in told[-most:])


def hardware_lines(snapshot: Snapshot) -> tuple[KernelMessage, ...]:
    """The lines of the kernel's log that report a fault of hardware."""
    return tuple(message for message in snapshot.kernel_log.value or () if message.xid in HARDWARE)


def event_evidence(snapshot: Snapshot) -> tuple[Evidence, ...]:
    """The newest of these lines."""
    return tuple(
        Evidence("kernel_log", event.text, snapshot.kernel_log.source or "") for event in hardware_lines(snapshot)[-3:]
    )


def lines_with(snapshot: Snapshot, words: re.Pattern[str]) -> tuple[Evidence, ...]:
    """The newest lines of the kernel's log with these words."""
    lines = [message.text for message in snapshot.kernel_log.value or () if words.search(message.text)]
    return tuple(Evidence("kernel_log", line, snapshot.kernel_log.source or "") for line in lines[-3:])
