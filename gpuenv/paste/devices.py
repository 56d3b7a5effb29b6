"""Display and 3D controllers: of lspci, plain, with -nn, -n and -k. Pure."""

from __future__ import annotations

from dataclasses import replace

from gpuenv.model.identity import AMD, INTEL, NVIDIA, pci_key
from gpuenv.model.pattern import pattern
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
_KNOWN_BY = pattern(r"Kernel modules: ([\w-]+(?:, [\w-]+)*)$")
_WITHOUT_NAME = pattern(r"\bDevice ([0-9a-f]{4})$")
_BRACKETS = pattern(r"\[([^\]]+)\]")
# As pci.ids (the PCI ID Repository) has these vendors.
_VENDORS = {"NVIDIA Corporation": NVIDIA, "Advanced Micro Devices": AMD, "Intel Corporation": INTEL}


class DeviceReader:
    """Takes lines and collects the controllers.

    Attributes:
        found: the controllers.
        told: what the line that was read last tells beside: output, fact, value.
    """

    def __init__(self) -> None:
        self.found: list[PastedDevice] = []
        self.told: list[tuple[str, str, str]] = []
        self._open: int | None = None  # the controller that the lines are about

    def look(self, line: str) -> str | None:
        """Takes a line; returns the output that it belongs to, where it tells of a controller."""
        self.told = []
        device = _device(line)
        if device is not None:
            self._put(device)
            return forms.LSPCI
        if _OTHER.match(line):
            self._open = None
        held, known_by = _HELD.match(line), _KNOWN_BY.match(line)
        if self._open is None or not (held or known_by):
            return None
        if held:
            self._fill(kernel_driver=held[1])
            self._of_a_holder(forms.LSPCI, held[1])
        if known_by:
            self._fill(modules=tuple(known_by[1].split(", ")))
        return forms.LSPCI

    def _of_a_holder(self, form: str, holder: str) -> None:
        """A module that holds a device is loaded."""
        if self._open is not None and self.found[self._open].vendor == NVIDIA and holder == "nvidia":
            self.told.append((form, "module", "loaded"))

    def _put(self, device: PastedDevice) -> None:
        """Opens the controller; one that is listed already is filled."""
        keys = [pci_key(entry.pci) for entry in self.found]
        key = pci_key(device.pci)
        if key in keys:
            self._open = keys.index(key)
            self._fill(**{name: getattr(device, name) for name in PastedDevice.__slots__ if getattr(device, name)})
        elif len(self.found) < _MOST:
            self._open = len(self.found)
            self.found.append(device)
        else:
            self._open = None

    def _fill(self, **values: object) -> None:
        if self._open is not None:
            self.found[self._open] = replace(self.found[self._open], **values)  # type: ignore[arg-type]


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
