"""Parses nvidia-smi's output: the banner of every driver era, and the comma-separated list of GPUs."""

from __future__ import annotations

import re

from gpuenv.model.strings import parse_integer, pattern
from gpuenv.probe.raw import ListedGpu

QUERY = ("index", "uuid", "name", "pci.bus_id", "memory.total")

# A return code that comes with a complete answer: "infoROM is corrupted" (manual of nvidia-smi, Return Value).
WARNING_ONLY = 14

# Up to R595: "Driver Version: 580.95.05  CUDA Version: 13.0"; from R610 on: "KMD Version: … CUDA UMD Version: …".
# A truncated number does not match.
_DRIVER = pattern(r"(?:Driver|KMD) Version\s*:\s*(\d{3}\.\d[\d.]*)(?=[\s|])")
_CUDA = pattern(r"CUDA(?: UMD)? Version\s*:\s*(\d{1,2}\.\d+)(?=[\s|])")
# The name of the program is never translated; three versions follow: its own, the driver's and the CUDA level.
_BANNER = pattern(r"NVIDIA-SMI\s+\d{3}\.\d[\d.]*(?=\s)([^\n]*)")
_BRANCHED = pattern(r"(?<![\d.])(\d{3}\.\d[\d.]*)(?=[\s|])")
_LEVEL = pattern(r"(?<![\d.])(\d{1,2}\.\d)(?=[\s|])")
_COLOUR = pattern(r"\x1b\[[0-9;]*[A-Za-z]")
_NOTHING = ("N/A", "ERR!", "Unknown Error", "GPU is lost")


def parse_banner(output: str) -> tuple[str | None, str | None]:
    """The driver version and the driver's CUDA level; None if not printed (``CUDA Version: N/A``).

    Matched by the labels of known eras, else by the form of such numbers on the line of the program's name.
    """
    plain = _COLOUR.sub("", output)
    line = _BANNER.search(plain)
    rest = line[1] if line else ""
    driver = _DRIVER.search(plain) or _BRANCHED.search(rest)
    cuda = _CUDA.search(plain) or _LEVEL.search(rest)
    return (driver[1] if driver else None, cuda[1] if cuda else None)


def parse_gpus(output: str) -> tuple[ListedGpu, ...]:
    """The GPUs in the output of ``--query-gpu`` with the fields of QUERY.

    Lines of another form are skipped, and those that the csv module rejects: a NUL, an unterminated field.
    """
    import csv  # noqa: PLC0415 - mostly the banner suffices

    gpus = []
    for line in _COLOUR.sub("", output).splitlines():
        try:
            row = next(csv.reader([line], skipinitialspace=True), [])
        except csv.Error:
            continue
        if len(row) != len(QUERY) or not re.fullmatch(r"\s*[0-9]{1,4}\s*", row[0]):
            continue
        index, uuid, name, pci, memory = (field.strip() for field in row)
        mebibytes = parse_integer((memory.split() or [""])[0])  # "143771 MiB", or without the unit
        total = None if mebibytes is None else mebibytes << 20
        gpus.append(ListedGpu(int(index), value_or_none(uuid), value_or_none(name), value_or_none(pci), None, total))
    return tuple(gpus)


def value_or_none(text: str) -> str | None:
    """The text; None for ``N/A``, ``ERR!`` and error messages."""
    return None if not text or text.startswith("[") or text in _NOTHING else text
