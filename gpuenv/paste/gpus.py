"""GPUs that nvidia-smi lists in all its forms, and CuPy and torch. Pure."""

from __future__ import annotations

from dataclasses import replace

from gpuenv.model.nvidia import Nvml
from gpuenv.model.text import pattern, whole_number
from gpuenv.paste import forms
from gpuenv.paste.records import Found, PastedGpu
from gpuenv.paste.smi_q import GPU, INSTANCES, OF_ALL, Key, SmiQReader, mebibytes, values_of

_MOST = 256  # GPUs of one output
_BUS = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d"
# How a name begins that a driver gives; "GPU 0: out of memory" is none.
_MAKER = r"(?:NVIDIA|Tesla|GeForce|Quadro|GRID|TITAN|NVS|Orin|Xavier|Thor|Tegra|GP10B|RTX|GTX)\b"

# The table. A Jetson's GPU has no address. Blanks may have been lost on the way, and the indentation. The last cell
# counts errors of the memory that were not corrected.
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
# What nvidia-smi says of a GPU that it cannot open; some releases name its number too.
_UNOPENED = pattern(
    rf"Unable to determine the device handle for (?:GPU|gpu) ?(?:(\d{{1,3}}): )?({_BUS}): (GPU is lost|Unknown Error)"
)
_FAULTS = {"GPU is lost": Nvml.GPU_IS_LOST, "Unknown Error": Nvml.UNKNOWN}

# nvidia-smi --query-gpu
_COLUMN = pattern(r"([a-z][a-z0-9_.]*)(?: \[\w+\])?")
_QUERY = pattern(r"nvidia-smi\b.* --query-gpu[= ]['\"]?([a-z0-9_.,]+)")
_OF_COLUMN = {
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
_NOTHING = ("", "N/A", "[N/A]", "[Not Supported]", "[Unknown Error]")

# nvidia-smi -q
_VERSION = pattern(r"\d[\d.]*")
_OF_ALL = {
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
_OF_DEVICE = {"Name": "name", "Compute Capability": "capability", "PCI Bus ID": "pci"}
_AMD = pattern(
    r"GPU models and configuration\s*:\s+(?:GPU \d+: )?"
    r"((?:AMD|Radeon|Device [0-9a-f]{4}$)(?!.*\b(?:not|or|no)\b).*)$"
)
_AMD_OF_CUPY = pattern(r"Device \d+ Arch\s*: (gfx\w+)")


class GpuReader:
    """Takes lines and collects the GPUs that each output lists.

    Attributes:
        found: by output, and in it by number or address.
        amd: the GPUs of AMD: name, and the compiler's target.
    """

    def __init__(self) -> None:
        self.found: dict[str, dict[str, PastedGpu]] = {}
        self.amd: list[tuple[str | None, str | None]] = []
        self._open: tuple[str, str] | None = None  # the entry that following lines are about
        self._smi_q = SmiQReader()
        self._this_time = PastedGpu()  # what the output in hand says of it: the one before may have said it too
        self._columns: tuple[str, ...] = ()

    def read(self, line: str) -> list[Found]:
        """The facts in a line, beside the GPUs."""
        return self._table(line) or self._long(line) or self._query(line) or self._list(line) or self._list_of_amd(line)

    def _put(self, form: str, key: str, /, **values: object) -> list[Found]:
        entries = self.found.setdefault(form, {})
        known = {name: value for name, value in values.items() if value is not None}
        if known if key in entries else len(entries) < _MOST:
            entries[key] = replace(entries.get(key, PastedGpu()), **known)  # type: ignore[arg-type]
        self._open = (form, key)
        return [(form, "", "")]

    def _more(self, form: str, /, **values: object) -> list[Found]:
        """More of the entry that is open, if it is of this output."""
        return self._put(*self._open, **values) if self._open and self._open[0] == form else []

    def _table(self, line: str) -> list[Found]:
        row, memory, unopened = _ROW.match(line), _MEMORY.match(line), _UNOPENED.match(line)
        if row:
            name, begins = (None, row[2].removesuffix("...").strip()) if row[2].endswith("...") else (row[2], None)
            errors = whole_number(row[4] or "")
            health = {} if errors is None else {"ecc_uncorrected": errors}
            values = {"index": int(row[1]), "name": name, "name_begins": begins, "pci": row[3], "health": health}
            return self._put(forms.SMI, row[1], **values)
        if memory:
            used, total = mebibytes(memory[1]), mebibytes(memory[2])
            return self._more(forms.SMI, memory_used=used, memory_total=total, compute_mode=memory[3])
        if unopened:
            number, fault = whole_number(unopened[1] or ""), int(_FAULTS[unopened[3]])
            return self._put(forms.SMI, unopened[1] or unopened[2], index=number, pci=unopened[2], fault=fault)
        mig = _MIG.match(line)
        return self._more(forms.SMI, mig=mig[1] == "Enabled") if mig else []

    def _long(self, line: str) -> list[Found]:
        """``nvidia-smi -q``, as text and as XML."""
        found: list[Found] = []
        for key, value in self._smi_q.read(line, is_open=self._is_long()):
            if key == GPU:
                known = self.found.get(forms.SMI_Q, {})
                number = known[value].index if value in known else len(known)
                found += self._put(forms.SMI_Q, value, index=number, pci=value)
                self._this_time = PastedGpu()
            elif key[0] == OF_ALL:
                fact = _OF_ALL.get(key[1])
                if fact is not None and _VERSION.fullmatch(value):
                    found.append((forms.SMI_Q, fact, value))
            elif self._is_long():
                found += self._of_a_gpu(key, value)
        return found

    def _is_long(self) -> bool:
        return self._open is not None and self._open[0] == forms.SMI_Q

    def _of_a_gpu(self, key: Key, value: str) -> list[Found]:
        """What is counted or listed is so within one output; what it leaves out stands as another output has it."""
        gpu = self.found[forms.SMI_Q].get(self._open[1], PastedGpu()) if self._open else PastedGpu()
        now = self._this_time
        facts: list[Found] = []
        if key == INSTANCES:
            values: dict[str, object] = {"mig_count": 0 if value == "None" else (now.mig_count or 0) + 1}
            if value == "None" and gpu.mig:
                facts.append((forms.SMI_Q, "mig-none", "yes"))
        else:
            values = values_of(now, key, value)
        if values:
            self._this_time = replace(now, **values)  # type: ignore[arg-type]
            values["health"] = {**gpu.health, **self._this_time.health}
        return [*self._more(forms.SMI_Q, **values), *facts]

    def _query(self, line: str) -> list[Found]:
        """``--query-gpu``: the names of the columns, in a line or in the command, then a line for each GPU."""
        columns = _columns(line)
        if columns:
            self._columns = columns
            return []
        parts = [part.strip() for part in line.split(",")]
        if not self._columns or len(parts) != len(self._columns):
            self._columns = ()
            return []
        values: dict[str, object] = {"index": len(self.found.get(forms.SMI_QUERY, {}))}
        key = str(values["index"])
        facts: list[Found] = []
        for column, part in zip(self._columns, parts, strict=True):
            name = _OF_COLUMN.get(column)
            if name is None or part in _NOTHING:
                continue
            if name == "driver":
                facts.append((forms.SMI_QUERY, name, part))
            elif name.startswith("memory_"):
                values[name] = mebibytes(part)
            else:
                values[name] = whole_number(part) if name == "index" else part
        return [*self._put(forms.SMI_QUERY, key, **values), *facts]

    def _list(self, line: str) -> list[Found]:
        listed, instance, device = _LISTED.match(line), _INSTANCE.match(line), _DEVICE.match(line)
        if listed:
            form = forms.SMI_L if listed[3] or listed[4] else forms.COLLECT_ENV
            return self._put(form, listed[1], index=int(listed[1]), name=listed[2].strip(), uuid=listed[3])
        if instance and self._open and self._open[0] == forms.SMI_L:
            so_far = self.found[forms.SMI_L][self._open[1]].mig_instances
            found = (instance[2], instance[1])
            return self._more(forms.SMI_L, mig=True, mig_instances=so_far if found in so_far else (*so_far, found))
        if device and "<" not in device[3]:
            values = {"index": int(device[1]), _OF_DEVICE[device[2]]: device[3].strip()}
            return self._put(forms.SHOW_CONFIG, device[1], **values)
        return []

    def _list_of_amd(self, line: str) -> list[Found]:
        """As torch or a CuPy for ROCm names them."""
        named, by_cupy = _AMD.match(line), _AMD_OF_CUPY.match(line)
        if len(self.amd) >= _MOST or not (named or by_cupy):
            return []
        self.amd.append((named[1], None) if named else (None, by_cupy[1] if by_cupy else None))
        return [(forms.COLLECT_ENV if named else forms.SHOW_CONFIG, "", "")]


def _columns(line: str) -> tuple[str, ...]:
    """The columns that a line names, some of which may be unknown; with ``noheader`` only the command names them."""
    query = _QUERY.search(line)
    matches = [_COLUMN.fullmatch(part.strip()) for part in (query[1] if query else line).split(",")]
    names = tuple(match[1] for match in matches if match)
    known = sum(name in _OF_COLUMN for name in names)
    return names if len(names) == len(matches) > (0 if query else 1) and known * 2 > len(names) else ()
