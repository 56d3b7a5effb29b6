"""Reads a paste: each reader takes the lines of its outputs and extracts facts from them.

Prefixes and markup of logs, mails, Markdown and HTML are removed from the lines.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from itertools import chain

from gpuenv.explain.normalize import clean, is_notation, unfolded
from gpuenv.model.strings import pattern
from gpuenv.paste import outputs
from gpuenv.paste.content import PasteContent, ReportedValue
from gpuenv.paste.fields import MUSL, MUSL_RELEASE, read_fields
from gpuenv.paste.gpu_lists import GpuReader
from gpuenv.paste.lspci import DeviceReader
from gpuenv.paste.package_lists import PackageReader
from gpuenv.probe.raw import parse_message

_MAX_VALUES = 2000
_MIN_LINE = 3  # characters; shorter lines are skipped, except numbers
_MESSAGE = pattern(r"NVRM: \S")  # of the driver, in the kernel log
_MAX_MESSAGES = 50
_MAX_RAW_LINE = 1 << 15  # characters: a report in a JSON string is one line
_MAX_PARTS = 4000  # lines in a raw line
_MAX_LINE = 4096  # characters of a printed line
_TAGS = pattern(r"^(?:</?(?:pre|code|p|div|span|details|summary|blockquote|samp)\b[^>]*>\s*)+", re.IGNORECASE)
_FRAMES = str.maketrans("\u2502\u2503\u2551\u00a6", "||||")  # replacements of a table's bars by editors and code pages
_LOST_ENDS = pattern(r"NVIDIA-SMI \d.*\|\s*[|+]")
_BETWEEN_TAGS = pattern(r"(?<=>)\s*(?=<)")
_BETWEEN_ROWS = pattern(r"(?<=[|+])\s*(?=[|+])")
_BULLET = pattern(r"^[-*+\u2022]\s+(?:\[[ xX]\]\s*)?")


def decoded(data: bytes) -> str:
    """The text of a file: UTF-8, or the UTF-16 that PowerShell writes; bytes that are neither are replaced."""
    is_wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if is_wide else "utf-8-sig", errors="replace")


def read_paste(text: str) -> PasteContent:
    """The content of a pasted text; lines of no known output are skipped."""
    gpus, packages, devices = GpuReader(), PackageReader(), DeviceReader()
    readers = (gpus.read, packages.read, devices.read, read_fields)
    values: list[ReportedValue] = []
    recognised: dict[str, None] = {}
    log: list[str] = []
    musl = 0  # the line with the name of musl; the next one has its release
    for number, line in lines_of(text):
        if 0 < len(line) < _MIN_LINE and not line.isdigit():
            continue
        is_element = line.startswith("<") and line.endswith(">")
        facts = gpus.read_element(line) if is_element else list(chain.from_iterable(read(line) for read in readers))
        if _MESSAGE.match(line):
            log += [line] if len(log) < _MAX_MESSAGES else []
            facts.append((outputs.DMESG, "", ""))
        if MUSL.match(line):
            musl = number
        release = MUSL_RELEASE.match(line)
        if release and musl and number == musl + 1:
            facts.append((outputs.LDD, "libc", f"musl-{release[1]}"))
        recognised.update(dict.fromkeys(output for output, _, _ in facts))
        if len(values) < _MAX_VALUES:
            values += [ReportedValue(fact, value, output, number) for output, fact, value in facts if fact]
    return PasteContent(
        values=tuple(values[:_MAX_VALUES]),
        gpus={output: tuple(entries.values()) for output, entries in gpus.found.items()},
        amd=tuple(gpus.amd),
        devices=tuple(devices.found.values()),
        log=tuple(parse_message(line) for line in log),
        packages=packages.found,
        listings=packages.listings,
        complete=packages.complete,
        outputs=tuple(recognised),
    )


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Each line with its number; a JSON string with several lines is split, and its parts share the number."""
    for number, line in enumerate(text.splitlines(), 1):
        raw = line[:_MAX_RAW_LINE]
        rows = [row for part in unfolded(raw, notation=is_notation(raw)) for row in _rows(part)]
        for part in rows[:_MAX_PARTS]:
            text = _BULLET.sub("", _TAGS.sub("", clean(part[:_MAX_LINE]))).translate(_FRAMES)
            yield number, text.replace("**", "").strip("` ")


def _rows(part: str) -> list[str]:
    """The rows or elements of an output that lost its line ends, as on a forum without a code fence."""
    if "<nvidia_smi_log" in part or "<gpu id=" in part:
        return _BETWEEN_TAGS.split(part)
    return _joined_rows(_BETWEEN_ROWS.split(part)) if _LOST_ENDS.search(part) else [part]


def _joined_rows(pieces: list[str]) -> list[str]:
    """Joins rows that were split at empty cells, such as the row of the MIG mode."""
    rows: list[list[str]] = []
    is_complete = True
    for piece in pieces:
        if is_complete:
            rows.append([])
        rows[-1].append(piece)
        is_complete = bool(piece.strip("| "))
    return [" ".join(row) for row in rows]
