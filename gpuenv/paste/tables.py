"""The forms in which nvidia-smi lists GPUs in rows: its table of every era, and its answers to --query-gpu. Pure."""

from __future__ import annotations

from typing import Any

from gpuenv.model.codes import Nvml
from gpuenv.model.numbers import whole_number
from gpuenv.model.pattern import pattern

_BUS = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d"
_MEBIBYTES = 1 << 20

# A Jetson's GPU has no address. Blanks may have been lost on the way, and the indentation. The last cell counts errors
# of the memory that were not corrected.
ROW = pattern(
    rf"\|?\s*(\d{{1,3}})\s+(\S.*?)\s+(?:On|Off|N/A|WDDM|TCC|MCDM)\s*\|\s*(?:({_BUS})|N/A)\b"
    r"(?:\s+(?:On|Off|N/A)\s*\|\s*(\d{1,9})\s*\|)?"
)
# Rows of MIG instances have no temperature.
MEMORY = pattern(
    r"\|?\s*(?:N/A|ERR!|\d{1,3}%)\s.*?\|\s*(\d+)MiB\s*/\s*(\d+)MiB\s*\|"
    r"(?:\s*\S+\s+(Default|E\. Process|E\. Thread|Prohibited))?"
)
MIG = pattern(r"\|[^|]*\|[^|]*\|\s*(Enabled|Disabled)\*?\s*\|$")

# What nvidia-smi says of a GPU that it cannot open; some releases name its number too.
UNOPENED = pattern(
    rf"Unable to determine the device handle for (?:GPU|gpu) ?(?:(\d{{1,3}}): )?({_BUS}): (GPU is lost|Unknown Error)"
)
FAULTS = {"GPU is lost": Nvml.GPU_IS_LOST, "Unknown Error": Nvml.UNKNOWN}

LONG_GPU = pattern(rf"GPU ({_BUS})$")

_COLUMN = pattern(r"([a-z][a-z0-9_.]*)(?: \[\w+\])?")
_ASKED = pattern(r"nvidia-smi\b.* --query-gpu[= ]['\"]?([a-z0-9_.,]+)")
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


def whole_or_cut(name: str) -> tuple[str | None, str | None]:
    """The name of a GPU, or the beginning of one that the table has cut, which may then name several."""
    return (None, name.removesuffix("...").strip()) if name.endswith("...") else (name.strip(), None)


def mebibytes(text: str) -> int | None:
    """``15360`` or ``15360 MiB`` in bytes; a number that no GPU has is none."""
    number = whole_number((text.split() or [""])[0])
    return None if number is None else number * _MEBIBYTES


def columns_of(line: str) -> tuple[str, ...]:
    """The columns of a list that ``--query-gpu`` prints, where a line names them; they may be unknown ones.

    With ``noheader``, the command alone does.
    """
    asked = _ASKED.search(line)
    names = [_COLUMN.fullmatch(part.strip()) for part in (asked[1] if asked else line).split(",")]
    told = tuple(match[1] for match in names if match)
    known = sum(name in _OF_COLUMN for name in told)
    return told if len(told) == len(names) > (0 if asked else 1) and known * 2 > len(told) else ()


def row_values(columns: tuple[str, ...], line: str) -> dict[str, Any] | None:
    """What a line says under these columns; null for a line that is none of the list."""
    parts = [part.strip() for part in line.split(",")]
    if not columns or len(parts) != len(columns):
        return None
    values: dict[str, Any] = {}
    for column, part in zip(columns, parts, strict=True):
        name = _OF_COLUMN.get(column)
        if name is None or part in _NOTHING:
            continue
        if name.startswith("memory_"):
            values[name] = mebibytes(part)
        elif name == "index":
            values[name] = whole_number(part)
        else:
            values[name] = part
    return values
