"""Reads the GPUs that nvidia-smi, in all its output formats, CuPy and torch list.

A value of ``nvidia-smi -q``, as text or XML, has a key of section and name. In the text, these are the heading above
and the label before the colon; in XML, the parent element and the element. Both are spelled as in XML, so that most
keys are the same. The manual page of nvidia-smi documents the terms; those of each release were read in outputs of
340 to 610.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from html import escape

from gpuenv.model.nvidia import Nvml, pci_key
from gpuenv.model.snapshot import GpuUser, Virtualization
from gpuenv.model.strings import parse_integer, pattern
from gpuenv.paste import outputs
from gpuenv.paste.content import ExtractedFact, PastedGpu
from gpuenv.probe.nvidia_smi_xml import Elements

_MAX_GPUS = 256  # of one output
_BUS = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d"
# Prefixes of product names; "GPU 0: out of memory" has none.
_MAKER = r"(?:NVIDIA|Tesla|GeForce|Quadro|GRID|TITAN|NVS|Orin|Xavier|Thor|Tegra|GP10B|RTX|GTX)\b"

# The table. The GPU of a Jetson has no address. A paste may have lost spaces and indentation. The last cell counts
# uncorrected memory errors.
_ROW = pattern(
    rf"\|?\s*(\d{{1,3}})\s+(\S.*?)\s+(?:On|Off|N/A|WDDM|TCC|MCDM)\s*\|\s*(?:({_BUS})|N/A)\b"
    r"(?:\s+(?:On|Off|N/A)\s*\|\s*(\d{1,9})\s*\|)?"
)
# Rows of MIG instances have no temperature.
_MEMORY = pattern(
    r"\|?\s*(?:N/A|ERR!|\d{1,3}%)\s.*?\|\s*(\d+)MiB\s*/\s*(\d+)MiB\s*\|"
    r"(?:\s*\S+\s+(Default|E\. Process|E\. Thread|Prohibited))?"
)
_MIG = pattern(r"\|[^|]*\|[^|]*\|\s*(Enabled|Disabled)\*?\s*\|$")
# The message of nvidia-smi for a GPU that it cannot open; some releases add its number.
_OPEN_FAILURE = pattern(
    rf"Unable to determine the device handle for (?:GPU|gpu) ?(?:(\d{{1,3}}): )?({_BUS}): (GPU is lost|Unknown Error)"
)
# The warning below the output of nvidia-smi for a GPU whose infoROM is corrupt
_CORRUPT = pattern(rf"WARNING: infoROM is corrupted at gpu ({_BUS})")
_FAULTS = {"GPU is lost": Nvml.GPU_IS_LOST, "Unknown Error": Nvml.UNKNOWN}

# nvidia-smi --query-gpu
_COLUMN = pattern(r"([a-z][a-z0-9_.]*)(?: \[\w+\])?")
_QUERY = pattern(r"nvidia-smi\b.* --query-gpu[= ]['\"]?([a-z0-9_.,]+)")
_COLUMN_FIELDS = {
    "name": "name",
    "gpu_name": "name",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "index": "index",
    "pci.bus_id": "pci",
    "gpu_bus_id": "pci",
    "compute_cap": "capability",
    "compute_mode": "compute_mode",
    "memory.total": "memory_total",
    "memory.used": "memory_used",
    "driver_version": "driver",
}
_NO_VALUE = ("", "N/A", "[N/A]", "[Not Supported]", "[Unknown Error]")

# nvidia-smi -q
_VERSION = pattern(r"\d[\d.]*")
_DRIVER_FACTS = {
    "driver_version": "driver",
    "kmd_version": "driver",
    "cuda_version": "driver-cuda",
    "cuda_umd_version": "driver-cuda",
    "attached_gpus": "attached",
}

# nvidia-smi -L, collect_env and cupy.show_config()
_LISTED = pattern(
    rf"(?:GPU models and configuration\s*: )?GPU (\d{{1,4}}): ({_MAKER}.*?)(?: \(UUID: (?:(GPU-[\w-]+)|([^)]*))\))?$"
)
_INSTANCE = pattern(r"MIG (\S+)\s+Device\s+\d+: \(UUID: (MIG-[^)\s]+)\)$")
_DEVICE = pattern(r"Device (\d{1,4}) (Name|Compute Capability|PCI Bus ID)\s*: (.+)$")
_DEVICE_FIELDS = {"Name": "name", "Compute Capability": "capability", "PCI Bus ID": "pci"}
_AMD = pattern(
    r"GPU models and configuration\s*:\s+(?:GPU \d+: )?"
    r"((?:AMD|Radeon|Device [0-9a-f]{4}$)(?!.*\b(?:not|or|no)\b).*)$"
)
_AMD_OF_CUPY = pattern(r"Device \d+ Arch\s*: (gfx\w+)")

Key = tuple[str, str]

GPU: Key = ("", "GPU")  # the start of a GPU; the value is its address
INSTANCES: Key = ("", "instances")  # the start of a MIG instance; the value is ``None`` without one
DRIVER = "the driver"  # the section before the first GPU

_NONE = "None"
_GPU = pattern(rf"GPU ({_BUS})$")
_ATTACHED = pattern(r"Attached GPUs\s+: (\d{1,4})$")
_LINE = pattern(r"([A-Z][\w .()/-]*?)\s+: (.+)$")
_HEADING = pattern(r"[A-Za-z][\w /()-]*$")
_AFTER_INSTANCES = ("Accounting Mode", "Driver Model", "Serial Number", "GPU UUID", "Minor Number")
_EMPTY = ("", "N/A", "ERR!", "Unknown Error", "GPU is lost", "GPU requires reset", "Not Found")
_NOT_REPORTED = ("[", "Requested functionality")

_PCIE_KEYS = {
    ("pcie_generation", "max"): "generation_most",
    ("pcie_generation", "current"): "generation",
    ("pcie_gen", "max_link_gen"): "generation_most",
    ("pcie_gen", "current_link_gen"): "generation",
    ("link_width", "max"): "width_most",
    ("link_width", "current"): "width",
    ("link_widths", "max_link_width"): "width_most",
    ("link_widths", "current_link_width"): "width",
}
_VIRTUALIZATIONS = {
    "None": Virtualization.NONE,
    "Pass-Through": Virtualization.PASSTHROUGH,
    "VGPU": Virtualization.VGPU,
    "Host VGPU": Virtualization.HOST_VGPU,
    "Host VSGA": Virtualization.HOST_VSGA,
}
_FABRICS = {
    "Not Supported": "not-supported",
    "Not Started": "not-started",
    "In Progress": "in-progress",
    "Completed": "completed",
}
_SWITCH = {"Enabled": True, "Yes": True, "Disabled": False, "No": False}
_FLAGS = {
    ("ecc_mode", "current"): "ecc",
    ("ecc_mode", "current_ecc"): "ecc",
    ("ecc_mode", "pending"): "ecc_pending",
    ("ecc_mode", "pending_ecc"): "ecc_pending",
    ("retired_pages", "pending_page_blacklist"): "pages_pending",
    ("retired_pages", "pending"): "pages_pending",
    ("retired_pages", "pending_blacklist"): "pages_pending",
    ("retired_pages", "pending_retirement"): "pages_pending",
    ("remapped_rows", "pending"): "rows_pending",
    ("remapped_rows", "remapped_row_pending"): "rows_pending",
    ("remapped_rows", "remapping_failure_occurred"): "rows_failed",
    ("remapped_rows", "remapped_row_failure"): "rows_failed",
}
_NUMBERS = {
    ("remapped_rows", "correctable_error"): "rows_corrected",
    ("remapped_rows", "remapped_row_corr"): "rows_corrected",
    ("remapped_rows", "uncorrectable_error"): "rows_uncorrected",
    ("remapped_rows", "remapped_row_unc"): "rows_uncorrected",
    ("temperature", "gpu_current_temp"): "temperature",
    ("temperature", "gpu_temp"): "temperature",
    ("clocks", "sm"): "clock",
    ("clocks", "sm_clock"): "clock",
    ("max_clocks", "sm"): "clock_most",
    ("max_clocks", "sm_clock"): "clock_most",
}
# From R535 on those of the GPU and those of its module are two sections.
_WATTS = {
    ("power_readings", "enforced_power_limit"): "power_limit",
    ("power_readings", "default_power_limit"): "power_limit_default",
    ("gpu_power_readings", "current_power_limit"): "power_limit",
    ("gpu_power_readings", "default_power_limit"): "power_limit_default",
}
_POWER = pattern(r"(\d{1,5}(?:\.\d+)?) W")
# Parts of the sum of uncorrected errors since the driver was loaded; true for the last part.
_UNCORRECTED = {
    ("volatile", "sram_uncorrectable"): False,
    ("volatile", "sram_uncorrectable_parity"): False,
    ("volatile", "sram_uncorrectable_secded"): False,
    ("volatile", "dram_uncorrectable"): True,
    ("volatile/double_bit", "total"): True,
}
_REASONS = {
    "idle": "gpu-idle",
    "gpu_idle": "gpu-idle",
    "applications_clocks_setting": "application-clocks",
    "sw_power_cap": "software-power-cap",
    "hw_slowdown": "hardware-slowdown",
    "sync_boost": "sync-boost",
    "sw_thermal_slowdown": "software-thermal",
    "hw_thermal_slowdown": "hardware-thermal",
    "hw_power_brake_slowdown": "hardware-power-brake",
    "display_clock_setting": "display-clock",
    "display_clocks_setting": "display-clock",
}
_REASON_SECTIONS = ("clocks_throttle_reasons", "clocks_event_reasons", "hw_slowdown")  # the last has two below it
_REASON = pattern(r"clocks_(?:throttle|event)_reason_(\w+)$")
_MAX_PROGRAM = 40  # characters of a program's name
_MAX_USERS = 500  # processes of a GPU

_START = pattern(r"(?=<(?:nvidia_smi_log\b|gpu id=))")
_TAG = pattern(r"(</?[a-z]\w*(?: id=\"[^\"<>&]*\")?\s*/?>)", re.IGNORECASE)
_ROOT = "<nvidia_smi_log"
# Without the root element, only the address identifies an element of nvidia-smi.
_GPU_ELEMENT = pattern(rf"<gpu id=\"{_BUS}\"", re.IGNORECASE)
_MAX_DEPTH = 16  # of nested elements; those of nvidia-smi have seven levels
_MAX_DOCUMENTS = 1000  # of a paste


def _with(gpu: PastedGpu, values: Mapping[str, object]) -> PastedGpu:
    """The GPU with these values; the same record if it has them, since pastes repeat outputs."""
    is_known = all(getattr(gpu, name) == value for name, value in values.items())
    return gpu if is_known else replace(gpu, **values)  # type: ignore[arg-type]


class GpuReader:
    """Takes lines and collects the GPUs that each output lists.

    Attributes:
        found: by output, then by number or address.
        amd: the AMD GPUs: name, and target of the compiler.
    """

    def __init__(self) -> None:
        self.found: dict[str, dict[str, PastedGpu]] = {}
        self.amd: list[tuple[str | None, str | None]] = []
        self._open: tuple[str, str] | None = None  # the entry that the following lines describe
        self._smi_q = _QueryReader()
        self._current = PastedGpu()  # the GPU in the current output only; an earlier output may list it too
        self._columns: tuple[str, ...] = ()

    def read(self, line: str) -> list[ExtractedFact]:
        """The facts in a line other than GPUs."""
        return (
            self._table(line)
            or self._query_values(self._smi_q.read(line, is_open=self._is_smi_query()))
            or self._csv(line)
            or self._list(line)
            or self._amd_list(line)
        )

    def read_element(self, line: str) -> list[ExtractedFact]:
        """The same for an element of XML, which only ``nvidia-smi -q -x`` prints."""
        return self._query_values(self._smi_q.read_element(line))

    def _put(self, output: str, key: str, /, **values: object) -> list[ExtractedFact]:
        entries = self.found.setdefault(output, {})
        reported = {name: value for name, value in values.items() if value is not None}
        if reported if key in entries else len(entries) < _MAX_GPUS:
            entries[key] = _with(entries.get(key, PastedGpu()), reported)
        self._open = (output, key)
        return [(output, "", "")]

    def _add(self, output: str, /, **values: object) -> list[ExtractedFact]:
        """Adds to the current entry, if it is from this output."""
        return self._put(*self._open, **values) if self._open and self._open[0] == output else []

    def _table(self, line: str) -> list[ExtractedFact]:
        row, memory, failure = _ROW.match(line), _MEMORY.match(line), _OPEN_FAILURE.match(line)
        corrupt = _CORRUPT.match(line)
        if row:
            name, begins = (None, row[2].removesuffix("...").strip()) if row[2].endswith("...") else (row[2], None)
            errors = parse_integer(row[4] or "")
            health = {} if errors is None else {"ecc_uncorrected": errors}
            values = {"index": int(row[1]), "name": name, "name_begins": begins, "pci": row[3], "health": health}
            return self._put(outputs.SMI, row[1], **values)
        if memory:
            used, total = mebibytes(memory[1]), mebibytes(memory[2])
            return self._add(outputs.SMI, memory_used=used, memory_total=total, compute_mode=memory[3])
        if failure:
            number, fault = parse_integer(failure[1] or ""), int(_FAULTS[failure[3]])
            return self._put(outputs.SMI, failure[1] or failure[2], index=number, pci=failure[2], fault=fault)
        if corrupt:
            return self._corrupt(corrupt[1])
        mig = _MIG.match(line)
        return self._add(outputs.SMI, mig=mig[1] == "Enabled") if mig else []

    def _corrupt(self, pci: str) -> list[ExtractedFact]:
        """Adds the fact to the GPU with this address, in each output that lists it."""
        facts = []
        for output, entries in self.found.items():
            for key, gpu in entries.items():
                if gpu.pci is not None and pci_key(gpu.pci) == pci_key(pci):
                    entries[key] = _with(gpu, {"health": {**gpu.health, "inforom_valid": False}})
                    facts.append((output, "", ""))
        return facts

    def _query_values(self, pairs: Iterable[tuple[Key, str]]) -> list[ExtractedFact]:
        """The facts in ``nvidia-smi -q``, as text and as XML."""
        facts: list[ExtractedFact] = []
        for key, value in pairs:
            if key == GPU:
                known = self.found.get(outputs.SMI_Q, {})
                number = known[value].index if value in known else len(known)
                facts += self._put(outputs.SMI_Q, value, index=number, pci=value)
                self._current = PastedGpu()
            elif key[0] == DRIVER:
                fact = _DRIVER_FACTS.get(key[1])
                if fact is not None and _VERSION.fullmatch(value):
                    facts.append((outputs.SMI_Q, fact, value))
            elif self._is_smi_query():
                facts += self._gpu_value(key, value)
        return facts

    def _is_smi_query(self) -> bool:
        return self._open is not None and self._open[0] == outputs.SMI_Q

    def _gpu_value(self, key: Key, value: str) -> list[ExtractedFact]:
        """Adds a value to the current GPU; counts and lists restart with each output, other values are kept."""
        gpu = self.found[outputs.SMI_Q].get(self._open[1], PastedGpu()) if self._open else PastedGpu()
        current = self._current
        facts: list[ExtractedFact] = []
        if key == INSTANCES:
            values: dict[str, object] = {"mig_count": 0 if value == _NONE else (current.mig_count or 0) + 1}
            if value == _NONE and gpu.mig:
                facts.append((outputs.SMI_Q, "mig-none", "yes"))
        else:
            values = values_of(current, key, value)
        if values:
            self._current = _with(current, values)
            values["health"] = {**gpu.health, **self._current.health}
            values["pcie"] = {**gpu.pcie, **self._current.pcie}
        return [*self._add(outputs.SMI_Q, **values), *facts]

    def _csv(self, line: str) -> list[ExtractedFact]:
        """``--query-gpu``: the names of the columns, in a line or in the command, then a line per GPU."""
        columns = _columns(line)
        if columns:
            self._columns = columns
            return []
        parts = [part.strip() for part in line.split(",")]
        if not self._columns or len(parts) != len(self._columns):
            self._columns = ()
            return []
        values: dict[str, object] = {"index": len(self.found.get(outputs.SMI_QUERY, {}))}
        key = str(values["index"])
        facts: list[ExtractedFact] = []
        for column, part in zip(self._columns, parts, strict=True):
            name = _COLUMN_FIELDS.get(column)
            if name is None or part in _NO_VALUE:
                continue
            if name == "driver":
                facts.append((outputs.SMI_QUERY, name, part))
            elif name.startswith("memory_"):
                values[name] = mebibytes(part)
            else:
                values[name] = parse_integer(part) if name == "index" else part
        return [*self._put(outputs.SMI_QUERY, key, **values), *facts]

    def _list(self, line: str) -> list[ExtractedFact]:
        listed, instance, device = _LISTED.match(line), _INSTANCE.match(line), _DEVICE.match(line)
        if listed:
            output = outputs.SMI_L if listed[3] or listed[4] else outputs.COLLECT_ENV
            return self._put(output, listed[1], index=int(listed[1]), name=listed[2].strip(), uuid=listed[3])
        if instance and self._open and self._open[0] == outputs.SMI_L:
            instances = self.found[outputs.SMI_L][self._open[1]].mig_instances
            new = (instance[2], instance[1])
            return self._add(outputs.SMI_L, mig=True, mig_instances=tuple(dict.fromkeys((*instances, new))))
        if device and "<" not in device[3]:
            values = {"index": int(device[1]), _DEVICE_FIELDS[device[2]]: device[3].strip()}
            return self._put(outputs.SHOW_CONFIG, device[1], **values)
        return []

    def _amd_list(self, line: str) -> list[ExtractedFact]:
        """The AMD GPUs of torch or a CuPy for ROCm."""
        named, by_cupy = _AMD.match(line), _AMD_OF_CUPY.match(line)
        if len(self.amd) >= _MAX_GPUS or not (named or by_cupy):
            return []
        self.amd.append((named[1], None) if named else (None, by_cupy[1] if by_cupy else None))
        return [(outputs.COLLECT_ENV if named else outputs.SHOW_CONFIG, "", "")]


def _columns(line: str) -> tuple[str, ...]:
    """The columns that a line names, some of them maybe unknown; with ``noheader`` only the command names them."""
    query = _QUERY.search(line)
    matches = [_COLUMN.fullmatch(part.strip()) for part in (query[1] if query else line).split(",")]
    names = tuple(match[1] for match in matches if match)
    known = sum(name in _COLUMN_FIELDS for name in names)
    return names if len(names) == len(matches) > (0 if query else 1) and known * 2 > len(names) else ()


# nvidia-smi -q


class _QueryReader:
    """Takes lines of ``nvidia-smi -q``; values in a section of MIG instances are skipped."""

    def __init__(self) -> None:
        self._section = ""
        self._within_instances = False
        self._document = _Document()

    def read(self, line: str, *, is_open: bool) -> Iterator[tuple[Key, str]]:
        """The keys and values in a line; ``is_open`` if the previous lines are from this output."""
        start, attached = _GPU.match(line), _ATTACHED.match(line)
        if start:
            self._section, self._within_instances = "", False
            yield GPU, start[1]
        elif attached:
            yield (DRIVER, "attached_gpus"), attached[1]
        elif is_open:
            yield from self._text(line)
        yield from self.read_element(line)

    def _text(self, line: str) -> Iterator[tuple[Key, str]]:
        if _HEADING.match(line):
            self._section = _section_below(self._section, _as_in_xml(line))
            if line == "MIG Device":
                self._within_instances = True
                yield INSTANCES, line
        field = _LINE.match(line)
        if field is None:
            return
        if field[1] in _AFTER_INSTANCES:
            self._within_instances = False
        if field[1] == "MIG Devices" and field[2] == _NONE:
            yield INSTANCES, _NONE
        elif not self._within_instances:
            yield (self._section, _as_in_xml(field[1])), field[2]

    def read_element(self, line: str) -> Iterator[tuple[Key, str]]:
        """The keys and values in a line of XML."""
        for path, text in self._document.read(line):
            if path[0] != "gpu":
                yield (DRIVER, path[0]), text
            elif len(path) == 1:
                yield GPU, text
            elif path[1:] == ("mig_devices",) and text == _NONE:
                yield INSTANCES, _NONE
            elif path[1:] == ("mig_devices", "mig_device"):
                yield INSTANCES, "MIG Device"
            elif "mig_devices" not in path:
                # Element names of memory errors repeat in sibling sections.
                section = "/".join(path[-3:-1]) if path[-3:-2] == ("volatile",) else path[-2]
                yield (section, path[-1]), text


def _as_in_xml(name: str) -> str:
    return name.lower().replace("-", "").replace(" ", "_").replace("/", "_")


def _section_below(former: str, heading: str) -> str:
    """The section of a heading; up to R440 single and double bits are subsections of volatile and aggregate errors."""
    part = former.partition("/")[0]
    is_kind = heading in ("single_bit", "double_bit") and part in ("volatile", "aggregate")
    return f"{part}/{heading}" if is_kind else heading


class _Document:
    """An XML document that may be truncated; the next GPU then starts another.

    Only plain tags are parsed as such, everything else is escaped as text. So a declaration of a type or an entity
    never reaches the parser, and nothing is expanded or fetched.
    """

    def __init__(self) -> None:
        self._elements: Elements | None = None
        self._found: list[tuple[tuple[str, ...], str]] = []
        self._documents = 0

    def read(self, line: str) -> list[tuple[tuple[str, ...], str]]:
        """The elements that end in a line, as path below the root and text; a GPU at its start, with its address."""
        if self._elements is None and "<" not in line:
            return []
        for part in _START.split(line):
            self._read(part)
        found, self._found = self._found, []
        return found

    def _read(self, part: str) -> None:
        is_truncated = self._elements is None or len(self._elements.path) > 1  # the previous GPU, or the root
        if part.startswith(_ROOT) or (is_truncated and _GPU_ELEMENT.match(part)):
            self._begin()
        if self._elements is None:
            return
        pieces = _TAG.split(part)
        text = "".join(piece if number % 2 else escape(piece, quote=False) for number, piece in enumerate(pieces))
        if not self._elements.feed(text + "\n") or not 0 < len(self._elements.path) <= _MAX_DEPTH:
            self._elements = None

    def _begin(self) -> None:
        self._documents += 1
        self._elements = Elements(self._start, self._end) if self._documents <= _MAX_DOCUMENTS else None

    def _start(self, path: list[str], attributes: dict[str, str]) -> None:
        if _below_root(path) == ("gpu",):
            self._found.append((("gpu",), attributes.get("id", "")))

    def _end(self, path: list[str], text: str) -> None:
        below = _below_root(path)
        if below and below != ("gpu",):
            self._found.append((below, text))


def _below_root(path: list[str]) -> tuple[str, ...]:
    return tuple(path[1:] if path[0] == _ROOT[1:] else path)


def mebibytes(text: str) -> int | None:
    """``15360`` or ``15360 MiB`` in bytes; None if it is no plausible number."""
    number = parse_integer((text.split() or [""])[0])
    return None if number is None else number << 20


def values_of(gpu: PastedGpu, key: Key, value: str) -> dict[str, object]:
    """The fields of a GPU that a value changes."""
    section, name = key
    if value in _EMPTY or value.startswith(_NOT_REPORTED):
        return {}
    if section.endswith("licensed_product"):  # the licence of a vGPU has a product name too
        return {"licensed": value.startswith("Licensed")} if name == "license_status" else {}
    if key in _PCIE_KEYS:
        number = parse_integer(value.removesuffix("x"))
        return {} if number is None else {"pcie": {**gpu.pcie, _PCIE_KEYS[key]: number}}
    if key in _PARSERS or name in _PARSERS_BY_NAME:
        field, parse = _PARSERS.get(key) or _PARSERS_BY_NAME[name]
        return {field: parse(value)}
    health = _health(gpu.health, key, value)
    return {"health": {**gpu.health, **health}} if health else _processes(gpu, name, value)


# The field that a value decides, and how it is read, by its key or its name alone.
_PARSERS: Mapping[Key, tuple[str, Callable[[str], object]]] = {
    ("mig_mode", "current"): ("mig", _SWITCH.get),
    ("mig_mode", "current_mig"): ("mig", _SWITCH.get),
    ("mig_mode", "pending"): ("mig_pending", _SWITCH.get),
    ("mig_mode", "pending_mig"): ("mig_pending", _SWITCH.get),
    ("fb_memory_usage", "total"): ("memory_total", mebibytes),
    ("fb_memory_usage", "used"): ("memory_used", mebibytes),
    ("fabric", "state"): ("fabric", _FABRICS.get),
}
_PARSERS_BY_NAME: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "product_name": ("name", str),
    "gpu_uuid": ("uuid", str),
    "uuid": ("uuid", str),
    "compute_mode": ("compute_mode", str),
    "persistence_mode": ("persistence", _SWITCH.get),
    "virtualization_mode": ("virtualization", _VIRTUALIZATIONS.get),
}


def _health(health: Mapping[str, object], key: Key, value: str) -> dict[str, object]:
    section, name = key
    if key in _FLAGS and value in _SWITCH:
        fact = _FLAGS[key]
        return {fact: _SWITCH[value] or (fact == "pages_pending" and bool(health.get(fact)))}
    watts = _POWER.fullmatch(value)
    if key in _WATTS and watts:
        return {_WATTS[key]: float(watts[1])}
    number = parse_integer(value.split(maxsplit=1)[0])
    if key in _NUMBERS and number is not None:
        return {_NUMBERS[key]: number}
    if key in _UNCORRECTED and number is not None:
        former = health.get("ecc_uncorrected")
        total = number + (former if isinstance(former, int) else 0)
        return {"ecc_uncorrected": total} if total or _UNCORRECTED[key] else {}  # zero only if the sum is complete
    if section in _REASON_SECTIONS and value == "Active":
        prefixed = _REASON.match(name)
        reason = _REASONS.get(prefixed[1] if prefixed else name)
        reasons = health.get("throttle_reasons") or ()
        if reason and isinstance(reasons, tuple) and reason not in reasons:
            return {"throttle_reasons": (*reasons, reason)}
    return {}


def _processes(gpu: PastedGpu, name: str, value: str) -> dict[str, object]:
    """The compute processes; graphics processes are not counted."""
    users = gpu.users or ()
    pid = parse_integer(value) if name in ("process_id", "pid") else None
    if pid is not None:
        return {"process": pid, "users": users}
    if name == "processes" and value == _NONE:
        return {"users": ()}
    if gpu.process is not None and name == "type" and "C" in value and len(users) < _MAX_USERS:
        return {"users": (*users, GpuUser(gpu.process))}
    changes: dict[str, object] = {}
    if name in ("name", "process_name"):
        changes = {"name": _program(value)}
    elif name in ("used_gpu_memory", "used_memory"):
        changes = {"memory": mebibytes(value)}
    is_last_user = bool(users) and users[-1].pid == gpu.process
    return {"users": (*users[:-1], users[-1]._replace(**changes))} if changes and is_last_user else {}  # type: ignore[arg-type]


def _program(text: str) -> str | None:
    """The file name of a program, without directories and arguments, which may identify a user."""
    if text.startswith("[") or "Insufficient Permissions" in text:
        return None
    first = text if "\\" in text else text.split(maxsplit=1)[0]
    return first.replace("\\", "/").rpartition("/")[2][:_MAX_PROGRAM]
