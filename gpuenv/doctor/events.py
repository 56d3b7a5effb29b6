"""The events of hardware that the driver reports in the kernel's log. Pure."""

from __future__ import annotations

from gpuenv.model.finding import Evidence
from gpuenv.model.snapshot import KernelMessage, Snapshot
from gpuenv.model.xid import HARDWARE


def hardware_lines(snapshot: Snapshot) -> tuple[KernelMessage, ...]:
    """The lines of the kernel's log that report a fault of hardware."""
    return tuple(message for message in snapshot.kernel_log.value or () if message.xid in HARDWARE)


def event_evidence(snapshot: Snapshot) -> tuple[Evidence, ...]:
    """The newest of these lines."""
    return tuple(
        Evidence("kernel_log", event.text, snapshot.kernel_log.source or "") for event in hardware_lines(snapshot)[-3:]
    )
