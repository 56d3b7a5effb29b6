"""GPUs in what is pasted: of nvidia-smi in all its forms, CuPy and torch."""

from __future__ import annotations

from dataclasses import replace

from gpuenv.model.numbers import whole_number
from gpuenv.model.pattern import pattern
from gpuenv.paste import forms, tables
from gpuenv.paste.long_form import values_of
from gpuenv.paste.long_reader import GPU, INSTANCES, OF_ALL, LongReader
from gpuenv.paste.records import PastedGpu

_MOST = 256  # GPUs of one output
_VERSION = pattern(r"\d[\d.]*")
_OF_ALL = {
    **dict.fromkeys(("driver_version", "kmd_version"), "driver"),
    **dict.fromkeys(("cuda_version", "cuda_umd_version"), "driver-cuda"),
    "attached_gpus": "attached",
}
# How a name begins that a driver gives; "GPU 0: out of memory" is none.
_MAKER = r"(?:NVIDIA|Tesla|GeForce|Quadro|GRID|TITAN|NVS|Orin|Xavier|Thor|Tegra|GP10B|RTX|GTX)\b"
_LISTED = pattern(
    rf"(?:GPU models and configuration\s*: )?GPU (\d{{1,4}}): ({_MAKER}.*?)(?: \(UUID: (?:(GPU-[\w-]+)|([^)]*))\))?$"
)
_INSTANCE = pattern(r"MIG (\S+)\s+Device\s+\d+: \(UUID: (MIG-[^)\s]+)\)$")
_DEVICE = pattern(r"Device (\d{1,4}) (Name|Compute Capability|PCI Bus ID)\s*: (.+)$")
_AMD = pattern(
    r"GPU models and configuration\s*:\s+(?:GPU \d+: )?"
    r"((?:AMD|Radeon|Device [0-9a-f]{4}$)(?!.*\b(?:not|or|no)\b).*)$"
)
_AMD_OF_CUPY = pattern(r"Device \d+ Arch\s*: (gfx\w+)")


class GpuReader:
    """Takes lines and collects the GPUs that each output lists."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, PastedGpu]] = {}
        self.amd: list[tuple[str | None, str | None]] = []
        self._open: tuple[str, str] | None = None  # the entry that following lines are about
        self._at_length = LongReader()
        self._this_time = PastedGpu()  # what the output in hand says of it; the one before may have said it too
        self._columns: tuple[str, ...] = ()
        self.told: list[tuple[str, str, str]] = []  # beside GPUs, by the line that was read last: output, fact, value

    def look(self, line: str) -> str | None:
        """Takes a line; returns the output that it belongs to, where it tells of a GPU."""
        self.told = []
        return self._table(line) or self._long(line) or self._rows(line) or self._listed(line) or self._of_amd(line)

    def _put(self, form: str, key: str, /, **values: object) -> str:
        entries = self.found.setdefault(form, {})
        known = {name: value for name, value in values.items() if value is not None}
        if known if key in entries else len(entries) < _MOST:
            entries[key] = replace(entries.get(key, PastedGpu()), **known)  # type: ignore[arg-type]
        self._open = (form, key)
        return form

    def _more(self, form: str, /, **values: object) -> str | None:
        """More of the entry that is open, where it is of this output."""
        if self._open is None or self._open[0] != form:
            return None
        return self._put(*self._open, **values)

    def _table(self, line: str) -> str | None:
        row = tables.ROW.match(line)
        if row:
            name, begins = tables.whole_or_cut(row[2])
            errors = whole_number(row[4] or "")
            health = {} if errors is None else {"ecc_uncorrected": errors}
            return self._put(
                forms.SMI, row[1], index=int(row[1]), name=name, name_begins=begins, pci=row[3], health=health
            )
        memory = tables.MEMORY.match(line)
        if memory:
            used, total = tables.mebibytes(memory[1]), tables.mebibytes(memory[2])
            return self._more(forms.SMI, memory_used=used, memory_total=total, compute_mode=memory[3])
        unopened = tables.UNOPENED.match(line)
        if unopened:
            number = whole_number(unopened[1] or "")
            key = unopened[1] or unopened[2]
            return self._put(forms.SMI, key, index=number, pci=unopened[2], fault=int(tables.FAULTS[unopened[3]]))
        mig = tables.MIG.match(line)
        return self._more(forms.SMI, mig=mig[1] == "Enabled") if mig else None

    def _long(self, line: str) -> str | None:
        """``nvidia-smi -q``, at length or as XML."""
        form = None
        for key, value in self._at_length.look(line, is_open=self._is_open(forms.SMI_Q)):
            if key == GPU:
                known = self.found.get(forms.SMI_Q, {})
                number = known[value].index if value in known else len(known)
                form = self._put(forms.SMI_Q, value, index=number, pci=value)
                self._this_time = PastedGpu()
            elif key[0] == OF_ALL:
                self._of_the_driver(key[1], value)
            elif self._is_open(forms.SMI_Q):
                form = self._of_a_gpu(key, value)
        return form

    def _of_the_driver(self, name: str, value: str) -> None:
        fact = _OF_ALL.get(name)
        if fact is not None and _VERSION.fullmatch(value):
            self.told.append((forms.SMI_Q, fact, value))

    def _of_a_gpu(self, key: tuple[str, str], value: str) -> str | None:
        """What is counted or listed is so within one output; what it does not say stands as another has said it."""
        gpu = self.found[forms.SMI_Q].get(self._open[1], PastedGpu()) if self._open else PastedGpu()
        now = self._this_time
        if key == INSTANCES:
            values: dict[str, object] = {"mig_count": 0 if value == "None" else (now.mig_count or 0) + 1}
            if value == "None" and gpu.mig:
                self.told.append((forms.SMI_Q, "mig-none", "yes"))
        else:
            values = values_of(now, key, value)
        if not values:
            return self._more(forms.SMI_Q)
        self._this_time = replace(now, **values)  # type: ignore[arg-type]
        return self._more(forms.SMI_Q, **{**values, "health": {**gpu.health, **self._this_time.health}})

    def _is_open(self, form: str) -> bool:
        return self._open is not None and self._open[0] == form

    def _rows(self, line: str) -> str | None:
        """The answer to ``--query-gpu``: a line with the names of the columns, and a line a GPU."""
        columns = tables.columns_of(line)
        if columns:
            self._columns = columns
            return None
        values = tables.row_values(self._columns, line)
        if values is None:
            self._columns = ()
            return None
        driver = values.pop("driver", None)
        if driver is not None:
            self.told.append((forms.SMI_QUERY, "driver", driver))
        count = len(self.found.get(forms.SMI_QUERY, {}))
        return self._put(forms.SMI_QUERY, str(count), **{"index": count, **values})

    def _listed(self, line: str) -> str | None:
        listed = _LISTED.match(line)
        if listed:
            form = forms.SMI_L if listed[3] or listed[4] else forms.COLLECT_ENV
            return self._put(form, listed[1], index=int(listed[1]), name=listed[2].strip(), uuid=listed[3])
        instance = _INSTANCE.match(line)
        if instance and self._open and self._open[0] == forms.SMI_L:
            listed_so_far = self.found[forms.SMI_L][self._open[1]].mig_instances
            found = (instance[2], instance[1])
            more = {} if found in listed_so_far else {"mig_instances": (*listed_so_far, found)}
            return self._more(forms.SMI_L, mig=True, **more)
        device = _DEVICE.match(line)
        if device is None or "<" in device[3]:
            return None
        field = {"Name": "name", "Compute Capability": "capability", "PCI Bus ID": "pci"}[device[2]]
        return self._put(forms.SHOW_CONFIG, device[1], **{"index": int(device[1]), field: device[3].strip()})

    def _of_amd(self, line: str) -> str | None:
        """A GPU of AMD's, as torch or a CuPy for ROCm names it."""
        named, by_cupy = _AMD.match(line), _AMD_OF_CUPY.match(line)
        if len(self.amd) >= _MOST or not (named or by_cupy):
            return None
        self.amd.append((named[1], None) if named else (None, by_cupy[1] if by_cupy else None))
        return forms.COLLECT_ENV if named else forms.SHOW_CONFIG
