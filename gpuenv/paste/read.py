"""Reads a paste, line by line."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from gpuenv.paste import forms
from gpuenv.paste.devices import DeviceReader
from gpuenv.paste.fields import ANY, LINES
from gpuenv.paste.gpus import GpuReader
from gpuenv.paste.lines import lines_of
from gpuenv.paste.log import LogReader
from gpuenv.paste.packages import PackageReader
from gpuenv.paste.platforms import platform_facts
from gpuenv.paste.records import Pasted, Said
from gpuenv.paste.variables import variable_facts
from gpuenv.probe.smi import parse_banner

_WSL = re.compile(r"microsoft-standard|-Microsoft\b|WSL2")
_WINDOWS_ROW = re.compile(r"\|?\s*\d+\s+\S.*\s(?:WDDM|TCC|MCDM)\s*\|\s*[0-9A-Fa-f]{4,8}:")
_MUSL = re.compile(r"musl libc \((x86_64|aarch64)\)")
_MUSL_RELEASE = re.compile(r"Version (\d+\.\d+)")
_MOST = 2000  # facts
_SHORTEST = 3  # of a line that says anything, but for a number


def decoded(data: bytes) -> str:
    """The text of a file: UTF-8, or the UTF-16 that PowerShell writes; what is neither is replaced."""
    is_wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if is_wide else "utf-8-sig", errors="replace")


def read_paste(text: str) -> Pasted:
    """What a text says of a machine and an environment; lines of no known output are passed over."""
    gpus, packages, devices, log = GpuReader(), PackageReader(), DeviceReader(), LogReader()
    said: list[Said] = []
    seen: dict[str, None] = {}
    musl = 0
    for number, line in lines_of(text):
        if 0 < len(line) < _SHORTEST and not line.isdigit():
            continue
        for form in (gpus.look(line), packages.look(line), devices.look(line), log.look(line)):
            if form is not None:
                seen[form] = None
        told = [Said(fact, value, form, number) for form, fact, value in _told(line)]
        told += [Said(fact, value, form, number) for form, fact, value in (*gpus.told, *devices.told)]
        if _MUSL.match(line):
            musl = number
        release = _MUSL_RELEASE.match(line)
        if release and musl and number - musl == 1:
            told.append(Said("libc", f"musl-{release[1]}", forms.LDD, number))
        seen.update(dict.fromkeys(entry.form for entry in told))
        said.extend(told[: _MOST - len(said)])
    return Pasted(
        said=tuple(said),
        gpus={form: tuple(entries.values()) for form, entries in gpus.found.items()},
        amd=tuple(gpus.amd),
        devices=tuple(devices.found),
        log=tuple(log.found),
        packages=packages.found,
        listings=packages.listings,
        whole=packages.whole,
        forms=tuple(seen),
    )


def _told(line: str) -> Iterator[tuple[str, str, str]]:
    """What a line states: the output, the fact and its value."""
    if "NVIDIA-SMI " in line:
        for fact, value in zip(("driver", "driver-cuda"), parse_banner(line + " "), strict=True):
            if value is not None:
                yield forms.SMI, fact, value
    for fact, value in variable_facts(line):
        yield forms.ENV, fact, value
    if _WSL.search(line):
        yield forms.UNAME, "wsl", "yes"
    if _WINDOWS_ROW.match(line):
        yield forms.SMI, "os", "windows"
    yield from _fields(line)


def _fields(line: str) -> Iterator[tuple[str, str, str]]:
    """The facts of the outputs whose lines state one each."""
    if ANY.match(line) is None:
        return
    for form in LINES:
        match = form.pattern.match(line)
        if match is None:
            continue
        value = form.read(match[match.lastindex or 0].strip())
        if form.fact == "platform":
            for fact, part in platform_facts(value):
                yield form.form, fact, part
        else:
            yield form.form, form.fact, value
