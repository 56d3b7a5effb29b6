"""Display and 3D controllers of lspci, plain, with -nn, -n and -k. Pure."""

from __future__ import annotations

from gpuenv.model.identity import AMD, INTEL, NVIDIA
from gpuenv.model.pattern import pattern
from gpuenv.model.record import replace
from gpuenv.paste import forms
from gpuenv.paste.records import PastedDevice

_MOST = 64
_ADDRESS = r"((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])"
_NAMED = pattern(
    rf"{_ADDRESS} (?:VGA compatible controller|3D controller|Display controller)(?: \[03\d\d\])?: (.+?)"
    r"(?: \[([0-9a-f]{4}):([0-9a-f]{4})\])?(?: ?\(rev \w+\))?(?: \(prog-if .*)?$"
)
_NUMBERED = pattern(rf"{_ADDRESS} 03\d\d: ([0-9a-f]{{4}}):([0-9a-f]{{4}})\b")
_OTHER = pattern(rf"{_ADDRESS} \S")
_HELD = pattern(r"Kernel driver in use: (\S+)$")
_WITHOUT_NAME = pattern(r"\bDevice ([0-9a-f]{4})$")
# As pci.ids (the PCI ID Repository) has these vendors.
_VENDORS = {"NVIDIA Corporation": NVIDIA, "Advanced Micro Devices": AMD, "Intel Corporation": INTEL}


class DeviceReader:
    """Takes lines and collects the controllers."""

    def __init__(self) -> None:
        self.found: list[PastedDevice] = []
        self._open = False  # whether the lines are about the controller that was found last

    def look(self, line: str) -> str | None:
        """Takes a line; returns the output that it belongs to, where it tells of a controller."""
        device = _device(line)
        if device is not None and len(self.found) < _MOST:
            self.found.append(device)
            self._open = True
            return forms.LSPCI
        if _OTHER.match(line):
            self._open = False
        held = _HELD.match(line)
        if held is None or not self._open:
            return None
        self.found[-1] = replace(self.found[-1], kernel_driver=held[1])
        return forms.LSPCI


def _device(line: str) -> PastedDevice | None:
    numbered = _NUMBERED.match(line)
    if numbered:
        return PastedDevice(numbered[1], None, numbered[2], numbered[3])
    named = _NAMED.match(line)
    if named is None:
        return None
    vendor = next((number for name, number in _VENDORS.items() if name in named[2]), "")
    unnamed = _WITHOUT_NAME.search(named[2])
    return PastedDevice(named[1], named[2], named[3] or vendor, named[4] or (unnamed[1] if unnamed else ""))
