"""The events of hardware that the driver reports in the kernel's log. Pure."""

from __future__ import annotations

from gpuenv.model.finding import Evidence
from gpuenv.model.snapshot import KernelMessage, Snapshot

# NVIDIA, Xid Errors, Analyzing Xid Errors with the Xid Catalog (catalogue of October 2025): those that are resolved by
# a reset, a restart or a look at the board, and then by support. Left out are those that it resolves by restarting the
# application (13, 31, 69, 94), by nothing (43, 44, 45, 63, 92), or by its software (109, 119, 120), and 46, "GPU
# stopped processing", which a kernel without end may bring about.
HARDWARE = {
    48: "double-bit memory error",
    54: "auxiliary power is not connected",
    62: "internal micro-controller halted",
    64: "memory remapping failed",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    95: "uncontained memory error",
    136: "link training failed",
    140: "unrecovered memory error",
    143: "GPU could not be initialised",
    158: "GPU fatal timeout",
}


def hardware_lines(snapshot: Snapshot) -> tuple[KernelMessage, ...]:
    """The lines of the kernel's log that report a fault of hardware."""
    return tuple(message for message in snapshot.kernel_log.value or () if message.xid in HARDWARE)


def event_evidence(snapshot: Snapshot) -> tuple[Evidence, ...]:
    """The newest of these lines."""
    return tuple(
        Evidence("kernel_log", event.text, snapshot.kernel_log.source or "") for event in hardware_lines(snapshot)[-3:]
    )
