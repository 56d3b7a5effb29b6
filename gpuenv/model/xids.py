"""Xid events: the driver's messages about faults of a GPU in the kernel log, and those that mean faulty hardware.

``gpuenv/data/messages/nvidia-driver.yaml`` weighs the causes of an Xid in a pasted text, without the machine.
"""

from __future__ import annotations

import re

from gpuenv.model.nvidia import pci_key
from gpuenv.model.strings import pattern

# NVIDIA, Xid Errors, Viewing Xid Error Messages: with and without "PCI:" and a domain, in MIG mode with the instance.
_EVENT = pattern(
    r"NVRM: Xid \((?:PCI:)?(?P<pci>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2})(?P<function>\.[0-7])?[^)]*\): "
    r"(?P<xid>\d{1,4})\b",
    re.IGNORECASE,
)

# NVIDIA, Xid Errors, Analyzing Xid Errors with the Xid Catalog (catalogue of October 2025).
# Those that the catalogue resolves by a reset, a reboot or an inspection of the board, and then support. It resolves
# others by restarting the application (13, 31, 69, 94), by nothing (43, 44, 45, 63, 92), or by software (109, 119,
# 120); and an endless kernel may cause 46, "GPU stopped processing".
FALLEN_OFF_THE_BUS = 79
HARDWARE_XIDS = {
    48: "double-bit memory error",
    54: "auxiliary power is not connected",
    62: "internal micro-controller halted",
    64: "memory remapping failed",
    74: "NVLink error",
    FALLEN_OFF_THE_BUS: "GPU has fallen off the bus",
    95: "uncontained memory error",
    136: "link training failed",
    140: "unrecovered memory error",
    143: "GPU could not be initialized",
    158: "GPU fatal timeout",
}
# Of these: faults of the memory, whose repair NVML reports, and faults of contact, power or heat.
MEMORY_XIDS = frozenset({48, 64, 95, 140})
CONTACT_XIDS = frozenset({54, 74, FALLEN_OFF_THE_BUS})
# An illegal access of a kernel causes 13 or 31 (graphics engine exception, page fault); its terminated process, 43 and
# 45.
PROGRAM_XIDS = frozenset({13, 31, 43, 45})


def xid_event(line: str) -> tuple[int, str | None] | None:
    """Returns the Xid number in a line of the kernel log and the GPU's normalized PCI address; None without one."""
    match = _EVENT.search(line)
    return (int(match["xid"]), pci_key(f"{match['pci']}{match['function'] or '.0'}")) if match else None
