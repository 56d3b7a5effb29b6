"""Reads what nvidia-smi prints: the banner of every driver era, and its comma-separated list of GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuenv.model.text import pattern, whole_number
from gpuenv.probe.raw import SmiGpu

QUERY = ("index", "uuid", "name", "pci.bus_id", "memory.total")

# A return code that comes with a whole answer: "infoROM is corrupted" (manual of nvidia-smi, Return Value).
WARNING_ONLY = 14

# Up to R595: "Driver Version: 580.95.05  CUDA Version: 13.0"; from R610 on: "KMD Version: … CUDA UMD Version: …".
# What is cut off in the middle of a number is not taken for a number.
_DRIVER = pattern(r"(?:Driver|KMD) Version\s*:\s*(\d{3}\.\d[\d.]*)(?=[\s|])")
_CUDA = pattern(r"CUDA(?: UMD)? Version\s*:\s*(\d{1,2}\.\d+)(?=[\s|])")
# The program's own name is never translated; behind it come its own version, the driver's, and the CUDA level.
_BANNER = pattern(r"NVIDIA-SMI\s+\d{3}\.\d[\d.]*(?=\s)([^\n]*)")
_BRANCHED = pattern(r"(?<![\d.])(\d{3}\.\d[\d.]*)(?=[\s|])")
_LEVEL = pattern(r"(?<![\d.])(\d{1,2}\.\d)(?=[\s|])")
_COLOUR = pattern(r"\x1b\[[0-9;]*[A-Za-z]")
_MIB = 1024 * 1024
_NOTHING = ("N/A", "ERR!", "Unknown Error")


def parse_banner(output: str) -> tuple[str | None, str | None]:
    """The driver version and the driver's CUDA level; None for what is not printed (``CUDA Version: N/A``).

    By the words of the eras that are known, else by what such numbers look like on the line of the program's name.
    """
    plain = _COLOUR.sub("", output)
    line = _BANNER.search(plain)
    rest = line[1] if line else ""
    driver = _DRIVER.search(plain) or _BRANCHED.search(rest)
    cuda = _CUDA.search(plain) or _LEVEL.search(rest)
    return (driver[1] if driver else None, cuda[1] if cuda else None)


def parse_gpus(output: str) -> tuple[SmiGpu, ...]:
    """The answer to ``--query-gpu`` with the fields of QUERY; lines of another form are skipped."""
    gpus = []
    for row in _rows(_COLOUR.sub("", output)):
        if len(row) != len(QUERY) or not re.fullmatch(r"\s*[0-9]{1,4}\s*", row[0]):
            continue
        index, uuid, name, pci, memory = (field.strip() for field in row)
        gpus.append(SmiGpu(int(index), _given(uuid), _given(name), _given(pci), None, _bytes(memory)))
    return tuple(gpus)


def _bytes(mebibytes: str) -> int | None:
    """``143771`` or ``143771 MiB``; a number that no GPU has is none."""
    number = whole_number((mebibytes.split() or [""])[0])
    return None if number is None else number * _MIB


def _rows(output: str) -> Iterator[list[str]]:
    """The fields of each line; a line that the csv module refuses (a NUL, a field without end) is skipped."""
    import csv  # noqa: PLC0415 - hardly ever is nvidia-smi asked for more than its banner

    for line in output.splitlines():
        try:
            yield from csv.reader([line], skipinitialspace=True)
        except csv.Error:
            continue


def _given(text: str) -> str | None:
    return None if not text or text.startswith("[") or text in _NOTHING else text
