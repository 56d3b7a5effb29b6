"""Reads display and 3D controllers from lspci, also with -nn, -n and -k, and from the driver's kernel messages."""

from __future__ import annotations

from dataclasses import replace

from gpuenv.model.nvidia import AMD, INTEL, NVIDIA, pci_key
from gpuenv.model.strings import pattern
from gpuenv.paste import outputs
from gpuenv.paste.content import ExtractedFact, PastedDevice

_MAX_DEVICES = 64
_ADDRESS = r"((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])"
_NAMED = pattern(
    rf"{_ADDRESS} (?:VGA compatible controller|3D controller|Display controller)(?: \[03\d\d\])?: (.+?)"
    r"(?: \[([0-9a-f]{4}):([0-9a-f]{4})\])?(?: ?\(rev \w+\))?(?: \(prog-if .*)?$"
)
_NUMBERED = pattern(rf"{_ADDRESS} 03\d\d: ([0-9a-f]{{4}}):([0-9a-f]{{4}})\b")
_PROBED = pattern(rf"NVRM: The NVIDIA GPU {_ADDRESS} \(PCI ID: ({NVIDIA}):([0-9a-f]{{4}})\)")  # nv.c, nv_pci_probe
_OTHER = pattern(rf"{_ADDRESS} \S")
_IN_USE = pattern(r"Kernel driver in use: (\S+)$")
_MODULES = pattern(r"Kernel modules: ([\w-]+(?:, [\w-]+)*)$")
_UNNAMED = pattern(r"\bDevice ([0-9a-f]{4})$")
# The names of the vendors in pci.ids (the PCI ID Repository).
_VENDORS = {"NVIDIA Corporation": NVIDIA, "Advanced Micro Devices": AMD, "Intel Corporation": INTEL}


class DeviceReader:
    """Takes lines and collects the controllers.

    Attributes:
        found: the controllers by address.
    """

    def __init__(self) -> None:
        self.found: dict[str, PastedDevice] = {}
        self._open: str | None = None  # address of the controller that the following lines describe

    def read(self, line: str) -> list[ExtractedFact]:
        """The facts in a line other than controllers."""
        device = _device(line)
        if device is not None:
            self._put(device)
            return [(outputs.DMESG if line.startswith("NVRM") else outputs.LSPCI, "", "")]
        if _OTHER.match(line):
            self._open = None
        driver, modules = _IN_USE.match(line), _MODULES.match(line)
        if self._open is None or not (driver or modules):
            return []
        device = self.found[self._open]
        if modules:
            self.found[self._open] = replace(device, modules=tuple(modules[1].split(", ")))
        if driver:
            self.found[self._open] = replace(device, kernel_driver=driver[1])
        is_loaded = driver is not None and driver[1] == "nvidia" and device.vendor == NVIDIA
        return [(outputs.LSPCI, "module", "loaded") if is_loaded else (outputs.LSPCI, "", "")]

    def _put(self, device: PastedDevice) -> None:
        """Adds the controller, or completes its entry, and makes it the current one."""
        key = pci_key(device.pci) or device.pci
        has_room = key in self.found or len(self.found) < _MAX_DEVICES
        self._open = key if has_room else None
        if has_room:
            values = {name: value for name in PastedDevice.__slots__ if (value := getattr(device, name))}
            self.found[key] = replace(self.found.get(key, device), **values)


def _device(line: str) -> PastedDevice | None:
    numbered, named = _NUMBERED.match(line) or _PROBED.match(line), _NAMED.match(line)
    if numbered:
        return PastedDevice(numbered[1], None, numbered[2], numbered[3])
    if named is None:
        return None
    vendor = next((number for name, number in _VENDORS.items() if name in named[2]), "")
    unnamed = _UNNAMED.search(named[2])
    return PastedDevice(named[1], named[2], named[3] or vendor, named[4] or (unnamed[1] if unnamed else ""))
