"""What tells one GPU from another: one spelling for PCI addresses and UUIDs, which every source spells its own way."""

from __future__ import annotations

import re

NVIDIA = "10de"  # PCI vendor id
AMD = "1002"
INTEL = "8086"


def pci_key(address: str | None) -> str | None:
    """One spelling for a PCI address: ``00000000:17:00.0`` and ``0000:17:00.0`` are the same device."""
    match = re.fullmatch(r"(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-9a-fA-F])", address or "")
    if not match:
        return None
    return f"{int(match[1] or '0', 16):04x}:{match[2]}:{match[3]}.{match[4]}".lower()


def uuid_key(uuid: str | None) -> str | None:
    """The bare digits of a UUID: libcuda prints it without the ``GPU-``."""
    digits = re.sub(r"^(GPU|MIG)-", "", uuid or "").lower()
    return digits or None
