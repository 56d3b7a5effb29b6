"""Reads a paste: each reader takes the lines of its outputs, and what they state becomes facts.

Lines are taken as they were printed: without what logs, mails, Markdown and HTML have put around them.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from itertools import chain

from gpuenv.explain.plain import clean, is_notation, unfolded
from gpuenv.model.strings import pattern
from gpuenv.paste import forms
from gpuenv.paste.devices import DeviceReader
from gpuenv.paste.fields import MUSL, MUSL_RELEASE, read_fields
from gpuenv.paste.gpus import GpuReader
from gpuenv.paste.packages import PackageReader
from gpuenv.paste.records import Pasted, Said
from gpuenv.probe.raw import message_of

_MOST = 2000  # facts
_SHORTEST = 3  # characters of a line that says anything, but for a number
_MESSAGE = pattern(r"NVRM: \S")  # of the driver, in the kernel's log
_MOST_MESSAGES, _LONGEST_MESSAGE = 50, 400
_LONGEST = 1 << 15  # of a line: a report in a string of JSON is one
_MOST_PARTS = 4000  # lines in a line
_WIDEST = 4096  # of a line that was printed
_TAGS = pattern(r"^(?:</?(?:pre|code|p|div|span|details|summary|blockquote|samp)\b[^>]*>\s*)+", re.IGNORECASE)
_FRAMES = str.maketrans("\u2502\u2503\u2551\u00a6", "||||")  # what editors and code pages make of a table's bars
_LOST_ENDS = pattern(r"NVIDIA-SMI \d.*\|\s*[|+]")
_BETWEEN_TAGS = pattern(r"(?<=>)\s*(?=<)")
_BETWEEN_ROWS = pattern(r"(?<=[|+])\s*(?=[|+])")
_BULLET = pattern(r"^[-*+\u2022]\s+(?:\[[ xX]\]\s*)?")


def decoded(data: bytes) -> str:
    """The text of a file: UTF-8, or the UTF-16 that PowerShell writes; bytes that are neither are replaced."""
    is_wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if is_wide else "utf-8-sig", errors="replace")


def read_paste(text: str) -> Pasted:
    """What a text says of a machine and an environment; lines of no known output are passed over."""
    gpus, packages, devices = GpuReader(), PackageReader(), DeviceReader()
    readers = (gpus.read, packages.read, devices.read, read_fields)
    said: list[Said] = []
    seen: dict[str, None] = {}
    log: list[str] = []
    musl = 0  # the line that names musl; the next one has its release
    for number, line in lines_of(text):
        if 0 < len(line) < _SHORTEST and not line.isdigit():
            continue
        facts = list(chain.from_iterable(read(line) for read in readers))
        if _MESSAGE.match(line):
            log += [line[:_LONGEST_MESSAGE]] if len(log) < _MOST_MESSAGES else []
            facts.append((forms.DMESG, "", ""))
        if MUSL.match(line):
            musl = number
        release = MUSL_RELEASE.match(line)
        if release and musl and number == musl + 1:
            facts.append((forms.LDD, "libc", f"musl-{release[1]}"))
        seen.update(dict.fromkeys(form for form, _, _ in facts))
        if len(said) < _MOST:
            said += [Said(fact, value, form, number) for form, fact, value in facts if fact]
    return Pasted(
        said=tuple(said[:_MOST]),
        gpus={form: tuple(entries.values()) for form, entries in gpus.found.items()},
        amd=tuple(gpus.amd),
        devices=tuple(devices.found.values()),
        log=tuple(message_of(line) for line in log),
        packages=packages.found,
        listings=packages.listings,
        whole=packages.whole,
        forms=tuple(seen),
    )


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Each line with its number; a line that holds several, as a string of JSON does, gives each of them."""
    for number, line in enumerate(text.splitlines(), 1):
        raw = line[:_LONGEST]
        rows = [row for part in unfolded(raw, notation=is_notation(raw)) for row in _rows(part)]
        for part in rows[:_MOST_PARTS]:
            text = _BULLET.sub("", _TAGS.sub("", clean(part[:_WIDEST]))).translate(_FRAMES)
            yield number, text.replace("**", "").strip("` ")


def _rows(part: str) -> list[str]:
    """What lost its line ends on the way, as on a forum without a fence, by rows and elements."""
    if "<nvidia_smi_log" in part or "<gpu id=" in part:
        return _BETWEEN_TAGS.split(part)
    return _whole_rows(_BETWEEN_ROWS.split(part)) if _LOST_ENDS.search(part) else [part]


def _whole_rows(pieces: list[str]) -> list[str]:
    """The rows; one whose first cells are empty, as that of the MIG mode, was taken apart at each of them."""
    rows: list[list[str]] = []
    is_whole = True
    for piece in pieces:
        if is_whole:
            rows.append([])
        rows[-1].append(piece)
        is_whole = bool(piece.strip("| "))
    return [" ".join(row) for row in rows]
