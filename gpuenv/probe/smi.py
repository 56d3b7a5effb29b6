"""Reads what nvidia-smi prints: the banner of every driver era, and its comma-separated list of GPUs."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from gpuenv.probe.raw import SmiGpu

QUERY = ("index", "uuid", "name", "pci.bus_id", "memory.total")

# Up to R595: "Driver Version: 580.95.05  CUDA Version: 13.0"; from R610 on: "KMD Version: … CUDA UMD Version: …".
_DRIVER = re.compile(r"(?:Driver|KMD) Version\s*:\s*(\d[\d.]*)")
_CUDA = re.compile(r"CUDA(?: UMD)? Version\s*:\s*(\d+\.\d+)")
_MIB = 1024 * 1024


def parse_banner(output: str) -> tuple[str | None, str | None]:
    """The driver version and the driver's CUDA level; None for what is not printed (``CUDA Version: N/A``)."""
    driver, cuda = _DRIVER.search(output), _CUDA.search(output)
    return (driver[1] if driver else None, cuda[1] if cuda else None)


def parse_gpus(output: str) -> tuple[SmiGpu, ...]:
    """The answer to ``--query-gpu`` with the fields of QUERY; lines of another form are skipped."""
    gpus = []
    for row in _rows(output):
        if len(row) != len(QUERY) or not row[0].strip().isdigit():
            continue
        index, uuid, name, pci, memory = (field.strip() for field in row)
        total = int(memory.split()[0]) * _MIB if memory.split()[:1] and memory.split()[0].isdigit() else None
        gpus.append(SmiGpu(int(index), _given(uuid), _given(name), _given(pci), None, total))
    return tuple(gpus)


def _rows(output: str) -> Iterator[list[str]]:
    """The fields of each line; a line that the csv module refuses (a NUL, a field without end) is skipped."""
    for line in output.splitlines():
        try:
            yield from csv.reader([line], skipinitialspace=True)
        except csv.Error:
            continue


def _given(text: str) -> str | None:
    return None if not text or text.startswith("[") or text == "N/A" else text
