"""Display and 3D controllers: of lspci, plain, with -nn, -n and -k, of inxi, and of ubuntu-drivers. Pure."""

from __future__ import annotations

from dataclasses import replace

from gpuenv.model.identity import AMD, INTEL, NVIDIA, pci_key
from gpuenv.model.pattern import pattern
from gpuenv.paste import forms
from gpuenv.paste.inxi import InxiReader
from gpuenv.paste.records import PastedDevice

_MOST = 64
_BEGIN = frozenset("0123456789abcdefKmnv=")  # what the lines of lspci and ubuntu-drivers begin with
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
# ubuntu-drivers-common, UbuntuDrivers/detect.py and ubuntu-drivers (command_devices): the device's path, what it is
# recognised by, its maker and model in any order; bc03 is the class of displays (Linux, Documentation, modalias).
_PLACE = pattern(rf"== /sys/devices/\S*/(?:{_ADDRESS})(?:/\S*)? ==$")
_ALIAS = pattern(r"modalias\s*: pci:v0000([0-9A-F]{4})d0000([0-9A-F]{4})sv[0-9A-F]{8}sd[0-9A-F]{8}bc03")
_OF_UBUNTU = pattern(r"(vendor|model)\s*: (\S.*)$")
_LISTED = pattern(r"nvidia-(?:driver-)?\d[\w-]*, \(kernel modules provided by \S+\)$")  # ubuntu-drivers list
_OFFERED = pattern(r"driver\s*: \S+ - (?:distro|third-party) (?:non-)?free\b")


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
        self._place: str | None = None  # the device of ubuntu-drivers that the lines are about
        self._names: dict[str, str] = {}  # its maker and model
        self._inxi = InxiReader()
        self._keys: dict[str, int] = {}  # the controllers that an output of inxi has told of, by its own key
        self._section = ""  # which one of them that was

    @property
    def whole(self) -> bool:
        """Whether a list of all controllers was read to its end."""
        return self._inxi.whole

    def look(self, line: str) -> str | None:
        """Takes a line; returns the output that it belongs to, where it tells of a controller."""
        self.told = []
        return ((self._of_lspci(line) or self._of_ubuntu(line)) if line[:1] in _BEGIN else None) or self._of_inxi(line)

    def _of_lspci(self, line: str) -> str | None:
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

    def _of_inxi(self, line: str) -> str | None:
        form = None
        for key, device in self._inxi.look(line):
            self._put(device, key)
            self._of_a_holder(forms.INXI, device.kernel_driver or "")
            if self._inxi.release:
                self.told.append((forms.INXI, "driver", self._inxi.release))
            form = forms.INXI
        return form

    def _of_ubuntu(self, line: str) -> str | None:
        place = _PLACE.match(line)
        if place:
            self._place, self._names, self._open = place[1], {}, None
            return None
        if _LISTED.match(line):
            return forms.UBUNTU_DRIVERS
        alias, more = _ALIAS.match(line), _OF_UBUNTU.match(line)
        if self._place is None or not (alias or more or _OFFERED.match(line)):
            return None
        if alias:
            self._put(PastedDevice(self._place, None, alias[1].lower(), alias[2].lower()))
        if more:
            self._names[more[1]] = more[2]
        if self._open is None:
            return None
        if "model" in self._names:
            self._fill(name=" ".join(filter(None, (self._names.get("vendor"), self._names["model"]))))
        return forms.UBUNTU_DRIVERS

    def _of_a_holder(self, form: str, holder: str) -> None:
        """A module that holds a device is loaded."""
        if self._open is not None and self.found[self._open].vendor == NVIDIA and holder == "nvidia":
            self.told.append((form, "module", "loaded"))

    def _put(self, device: PastedDevice, key: str | None = None) -> None:
        """Opens the controller; one that another output has told of is filled."""
        section = (key or "").partition(" ")[0]
        if key and section != self._section:
            self._keys, self._section = {}, section
        told = self._keys.values() if key else ()  # two of one product are two
        same = (place for place, entry in enumerate(self.found) if place not in told and _is_same(entry, device))
        known = self._keys.get(key or "", next(same, None))
        if known is None and len(self.found) >= _MOST:
            self._open = None
            return
        if known is None:
            self.found.append(device)
        self._open = len(self.found) - 1 if known is None else known
        if key:
            self._keys[key] = self._open
        self._fill(**{name: getattr(device, name) for name in PastedDevice.__slots__ if getattr(device, name)})

    def _fill(self, **values: object) -> None:
        if self._open is not None:
            self.found[self._open] = replace(self.found[self._open], **values)  # type: ignore[arg-type]


def _is_same(first: PastedDevice, second: PastedDevice) -> bool:
    """Whether both are one device: by the address, or, where one has none, by the product."""
    if first.pci and second.pci:
        return pci_key(first.pci) == pci_key(second.pci)
    one, other = (_BRACKETS.search(entry.name or "") for entry in (first, second))
    of_one_product = one is not None and other is not None and one[1] == other[1]
    return first.vendor == second.vendor and (of_one_product or first.name == second.name)


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
