"""The Xid events by which the driver reports faults in the kernel's log: which are the hardware's, and which programs'.

NVIDIA, Xid Errors, Analyzing Xid Errors with the Xid Catalog (catalogue of October 2025).
"""

from __future__ import annotations

import re

from gpuenv.model.identity import pci_key
from gpuenv.model.pattern import pattern

# NVIDIA, Xid Errors, Viewing Xid Error Messages: with and without "PCI:" and a domain, in MIG mode with the instance.
_EVENT = pattern(
    r"NVRM: Xid \((?:PCI:)?(?P<pci>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2})(?P<function>\.[0-7])?[^)]*\): "
    r"(?P<xid>\d{1,4})\b",
    re.IGNORECASE,
)

# Those that are resolved by a reset, a restart or a look at the board, and then by support. Left out are those that the
# catalogue resolves by restarting the application (13, 31, 69, 94), by nothing (43, 44, 45, 63, 92), or by its software
# (109, 119, 120), and 46, "GPU stopped processing", which a kernel without end may bring about.
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
# 13 and 31 (graphics engine exception, page fault) are what an illegal access of a kernel looks like, 43 and 45 what is
# left of its process.
BY_PROGRAMS = frozenset({13, 31, 43, 45})


def xid_event(line: str) -> tuple[int, str | None] | None:
    """The number of the event that a line of the kernel's log reports, and the GPU's PCI address as ``pci_key`` has it.

    None where it reports none.
    """
    match = _EVENT.search(line)
    return (int(match["xid"]), pci_key(f"{match['pci']}{match['function'] or '.0'}")) if match else None
