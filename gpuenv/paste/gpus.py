"""GPUs in what is pasted: nvidia-smi's table, its -q and -L, CuPy's and numba's lists."""

from __future__ import annotations

from dataclasses import replace

from gpuenv.paste import forms
from gpuenv.paste.records import PastedGpu

_MIB = 1 << 20
_MOST = 256  # GPUs of one output


class GpuReader:
    """Takes lines and collects the GPUs that each output lists."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, PastedGpu]] = {}
        self._open: tuple[str, str] | None = None  # the entry that following lines are about
        self._section = ""

    def look(self, line: str) -> str | None:
        """Takes a line; returns the output that it belongs to, where it tells of a GPU."""
        return self._table(line) or self._listed(line) or self._queried(line) or self._numba(line)

    def _put(self, form: str, key: str, /, **values: object) -> str:
        entries = self.found.setdefault(form, {})
        if key in entries or len(entries) < _MOST:
            known = {name: value for name, value in values.items() if value is not None}
            entries[key] = replace(entries.get(key, PastedGpu()), **known)  # type: ignore[arg-type]
        self._open = (form, key)
        return form

    def _more(self, **values: object) -> str | None:
        return self._put(*self._open, **values) if self._open else None

    def _table(self, line: str) -> str | None:
        row = forms.SMI_ROW.match(line)
        if row:
            return self._put(forms.SMI, row[1], index=int(row[1]), name=_whole(row[2]), pci=row[3])
        if self._open is None or self._open[0] != forms.SMI:
            return None
        memory = forms.SMI_MEMORY.search(line)
        if memory:
            return self._more(memory_used=_mib(memory[1]), memory_total=_mib(memory[2]), compute_mode=memory[3])
        mig = forms.SMI_MIG.match(line)
        return self._more(mig=mig[1] == "Enabled") if mig else None

    def _listed(self, line: str) -> str | None:
        listed = forms.LISTED_GPU.match(line)
        if listed:
            form = forms.SMI_L if listed[3] else forms.COLLECT_ENV
            return self._put(form, listed[1], index=int(listed[1]), name=listed[2], uuid=listed[3])
        device = forms.DEVICE.match(line)
        if device is None or "<" in device[3]:
            return None
        field = {"Name": "name", "Compute Capability": "capability", "PCI Bus ID": "pci"}[device[2]]
        return self._put(forms.SHOW_CONFIG, device[1], **{"index": int(device[1]), field: device[3].strip()})

    def _queried(self, line: str) -> str | None:
        begin = forms.Q_GPU.match(line)
        if begin:
            self._section = ""
            count = len(self.found.get(forms.SMI_Q, {}))
            return self._put(forms.SMI_Q, begin[1], index=count, pci=begin[1])
        if self._open is None or self._open[0] != forms.SMI_Q:
            return None
        section = forms.Q_SECTION.match(line)
        if section:
            self._section = section[1]
        field = forms.Q_FIELD.match(line)
        return self._asked(field[1], field[2]) if field else None

    def _asked(self, name: str, value: str) -> str | None:
        if name == "Product Name":
            return self._more(name=value)
        if name == "GPU UUID":
            return self._more(uuid=value)
        if name == "Compute Mode":
            return self._more(compute_mode=value)
        if name == "Current" and self._section == "MIG Mode":
            return self._more(mig={"Enabled": True, "Disabled": False}.get(value))
        if name in ("Total", "Used") and self._section == "FB Memory Usage" and value.endswith("MiB"):
            size = _mib(value.split(maxsplit=1)[0])
            return self._more(memory_total=size) if name == "Total" else self._more(memory_used=size)
        return None

    def _numba(self, line: str) -> str | None:
        begin = forms.NUMBA_GPU.match(line)
        if begin:
            return self._put(forms.NUMBA, begin[1], index=int(begin[1]), name=begin[2])
        told = forms.NUMBA_CAPABILITY.match(line.strip())
        return self._more(capability=told[1]) if told and self._open and self._open[0] == forms.NUMBA else None


def _mib(text: str) -> int | None:
    return int(text) * _MIB if text.isdecimal() and len(text) < 10 else None  # noqa: PLR2004 - more than any GPU has


def _whole(name: str) -> str | None:
    """The name of a GPU; nvidia-smi cuts long ones, which then name several GPUs."""
    return None if name.endswith("...") else name.strip()
