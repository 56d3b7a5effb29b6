"""Display and 3D controllers of lspci, plain, with -nn, -n and -k."""

from __future__ import annotations

from dataclasses import replace

from gpuenv.model.nvidia import AMD, INTEL, NVIDIA, pci_key
from gpuenv.model.strings import pattern
from gpuenv.paste import forms
from gpuenv.paste.records import Found, PastedDevice

_MOST = 64
_ADDRESS = r"((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])"
_NAMED = pattern(
    rf"{_ADDRESS} (?:VGA compatible controller|3D controller|Display controller)(?: \[03\d\d\])?: (.+?)"
    r"(?: \[([0-9a-f]{4}):([0-9a-f]{4})\])?(?: ?\(rev \w+\))?(?: \(prog-if .*)?$"
)
_NUMBERED = pattern(rf"{_ADDRESS} 03\d\d: ([0-9a-f]{{4}}):([0-9a-f]{{4}})\b")
_OTHER = pattern(rf"{_ADDRESS} \S")
_HELD = pattern(r"Kernel driver in use: (\S+)$")
_MODULES = pattern(r"Kernel modules: ([\w-]+(?:, [\w-]+)*)$")
_WITHOUT_NAME = pattern(r"\bDevice ([0-9a-f]{4})$")
# As pci.ids (the PCI ID Repository) has these vendors.
_VENDORS = {"NVIDIA Corporation": NVIDIA, "Advanced Micro Devices": AMD, "Intel Corporation": INTEL}


class DeviceReader:
    """Takes lines and collects the controllers; found: by address."""

    def __init__(self) -> None:
        self.found: dict[str, PastedDevice] = {}
        self._open: str | None = None  # the controller that following lines are about

    def read(self, line: str) -> list[Found]:
        """The facts in a line, beside the controllers."""
        device = _device(line)
        if device is not None:
            self._put(device)
            return [(forms.LSPCI, "", "")]
        if _OTHER.match(line):
            self._open = None
        held, modules = _HELD.match(line), _MODULES.match(line)
        if self._open is None or not (held or modules):
            return []
        device = self.found[self._open]
        if modules:
            self.found[self._open] = replace(device, modules=tuple(modules[1].split(", ")))
        if held:
            self.found[self._open] = replace(device, kernel_driver=held[1])
        is_loaded = held is not None and held[1] == "nvidia" and device.vendor == NVIDIA
        return [(forms.LSPCI, "module", "loaded") if is_loaded else (forms.LSPCI, "", "")]

    def _put(self, device: PastedDevice) -> None:
        """Opens the controller; one that is listed already is filled."""
        key = pci_key(device.pci) or device.pci
        has_room = key in self.found or len(self.found) < _MOST
        self._open = key if has_room else None
        if has_room:
            told = {name: value for name in PastedDevice.__slots__ if (value := getattr(device, name))}
            self.found[key] = replace(self.found.get(key, device), **told)


def _device(line: str) -> PastedDevice | None:
    numbered, named = _NUMBERED.match(line), _NAMED.match(line)
    if numbered:
        return PastedDevice(numbered[1], None, numbered[2], numbered[3])
    if named is None:
        return None
    vendor = next((number for name, number in _VENDORS.items() if name in named[2]), "")
    unnamed = _WITHOUT_NAME.search(named[2])
    return PastedDevice(named[1], named[2], named[3] or vendor, named[4] or (unnamed[1] if unnamed else ""))
