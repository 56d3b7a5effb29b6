"""Graphics of ``inxi``, whose lines are folded anywhere between words. Pure.

inxi, its manual page (-G) and its outputs of 2.3 to 3.3: ``Card-1`` became ``Device-1``, ``bus ID`` became ``bus-ID``;
``alternate``, where no driver of its own holds the device ``modules``, lists the other modules that know it, as
``Kernel modules`` of lspci does; ``N/A`` is no driver.
"""

from __future__ import annotations

from gpuenv.model.identity import AMD, INTEL, NVIDIA
from gpuenv.model.pattern import pattern
from gpuenv.paste.records import PastedDevice

_SECTIONS = (
    *("System", "Machine", "Battery", "Memory", "PCI Slots", "CPU", "Audio", "Network", "Bluetooth", "Logical", "RAID"),
    *("Drives", "Partition", "Swap", "Unmounted", "USB", "Sensors", "Repos", "Processes", "Info", "Weather"),
)
_BEHIND = r"Display(?: Server)?|OpenGL|API|Screen-\d+|Monitor-\d+|Message|Advanced Data"
_KEYED = pattern(rf"(Graphics|Card|(?:Card|Device)-\d{{1,2}}|{_BEHIND}|{'|'.join(_SECTIONS)}):(?=\s|$)")
_IS_BEHIND = pattern(_BEHIND)
_DEVICE = pattern(r"(?:Card|Device)(?:-\d+)?$")
_COLOURS = pattern(
    r"\[\d{0,3}(?:;\d{1,3}){0,3}m"
    r"|(?<![\w.:-])(?:0?\d|1[0-5])"
    r"(?=(?:Graphics|(?:Card|Device)(?:-\d+)?|Display|vendor|driver|v|alternate|(?:bus|chip)[- ]ID):)"
)
_NAME = pattern(
    r"(.+?)(?= (?:vendor|driver|type|v|bus[- ]ID|chip[- ]ID|arch|ports|pcie|class-ID|alternate|modules|non-free):|$)"
)
_DRIVER = pattern(r"\bdriver: ([\w/-]+)")
_RELEASE = pattern(r"\bdriver: nvidia v: (\d{3}\.\d[\d.]*)")
_ALTERNATE = pattern(r"\b(?:alternate|modules): ([\w-]+(?:,\s?[\w-]+)*)")
_BUS = pattern(r"\bbus[- ]ID: ((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])\b")
_CHIP = pattern(r"\bchip[- ]ID: ([0-9a-f]{4}):([0-9a-f]{4})\b")
_VENDORS = {"NVIDIA": NVIDIA, "AMD": AMD, "Advanced Micro Devices": AMD, "Intel": INTEL}
_OF_OTHERS = pattern(r"\btype: USB\b|\b(?:Audio|Ethernet|Network)\b")
_OTHER_DEVICES = frozenset(("Audio", "Network", "Bluetooth", "USB", "RAID"))  # sections that have devices of their own
_LONGEST = 1200  # characters of a device


class InxiReader:
    """Takes lines and tells the devices in them.

    Attributes:
        release: of the driver that the device which was told last has.
    """

    def __init__(self) -> None:
        self._is_whole = False
        self._is_missed = False  # whether a device of NVIDIA's was not understood
        self.release: str | None = None
        self._is_graphics = False
        self._is_elsewhere = False
        self._device: str | None = None  # what is said of the device in hand
        self._key = ""  # and what it is called
        self._sections = 0
        self._found = False

    @property
    def whole(self) -> bool:
        """Whether a list was read to its end, so that what is not in it is not there."""
        return self._is_whole and not self._is_missed

    def look(self, line: str) -> list[tuple[str, PastedDevice]]:
        """Takes a line; returns the devices that it tells of, also those of which it says more, each with its key."""
        is_open = self._is_graphics or self._device is not None
        if not is_open and "Graphics:" not in line and "Device-" not in line and not line.endswith(":"):
            return []
        pieces = _KEYED.split(_COLOURS.sub("", line))
        told = [self._more(pieces[0])]
        for key, value in zip(pieces[1::2], pieces[2::2], strict=True):
            told.append(self._keyed(key, value))
        return [device for device in told if device is not None]

    def _keyed(self, key: str, value: str) -> tuple[str, PastedDevice] | None:
        self._is_missed = self._is_missed or self._is_not_understood()
        self._device = None
        if _DEVICE.match(key):
            is_alone = not (self._is_graphics or self._is_elsewhere) and value.lstrip().startswith("NVIDIA ")
            if self._is_graphics or is_alone:
                self._device, self._key = "", f"{self._sections} {key}"
            return self._more(value)
        if key == "Graphics" or _IS_BEHIND.fullmatch(key):
            self._is_whole = self._is_whole or (key != "Graphics" and self._is_graphics and self._found)
            self._is_graphics = self._is_graphics or key == "Graphics"
            self._sections += key == "Graphics"
        else:
            self._is_graphics = False
        self._is_elsewhere = key in _OTHER_DEVICES or (self._is_elsewhere and key != "Graphics")
        return None

    def _is_not_understood(self) -> bool:
        text = self._device or ""
        return self._is_graphics and "nvidia" in text.casefold() and not (self._read(text) or _OF_OTHERS.search(text))

    def _more(self, text: str) -> tuple[str, PastedDevice] | None:
        if self._device is None or not text.strip() or len(self._device) > _LONGEST:
            return None
        self._device = " ".join((self._device, *text.split())).strip()
        device = self._read(self._device)
        return (self._key, device) if device else None

    def _read(self, text: str) -> PastedDevice | None:
        name, driver, bus, chip = _NAME.match(text), _DRIVER.search(text), _BUS.search(text), _CHIP.search(text)
        vendor = next(
            (number for maker, number in _VENDORS.items() if text.casefold().startswith(maker.casefold())), None
        )
        if name is None or vendor is None or driver is None or _OF_OTHERS.search(text):
            return None
        self._found = True
        alternate, release = _ALTERNATE.search(text), _RELEASE.search(text)
        self.release = release[1] if release else None
        holder = None if driver[1] in ("N", "N/A") else driver[1]
        others = tuple(alternate[1].replace(" ", "").split(",")) if alternate else ()
        modules = (*((holder,) if holder and others else ()), *others)
        return PastedDevice(bus[1] if bus else "", name[1], vendor, chip[2] if chip else "", holder, modules)
