"""Reads a paste: each reader takes the lines of its outputs, and what they state becomes facts. Pure."""

from __future__ import annotations

import codecs
from itertools import chain

from gpuenv.model.text import pattern
from gpuenv.paste import forms
from gpuenv.paste.devices import DeviceReader
from gpuenv.paste.fields import MUSL, MUSL_RELEASE, read_fields
from gpuenv.paste.gpus import GpuReader
from gpuenv.paste.lines import lines_of
from gpuenv.paste.packages import PackageReader
from gpuenv.paste.records import Pasted, Said
from gpuenv.probe.assemble_kernel import message_of

_MOST = 2000  # facts
_SHORTEST = 3  # characters of a line that says anything, but for a number
_MESSAGE = pattern(r"NVRM: \S")  # of the driver, in the kernel's log
_MOST_MESSAGES, _LONGEST_MESSAGE = 50, 400


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
