"""Reads a paste, line by line."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from gpuenv.model.host import operating_system
from gpuenv.paste import forms
from gpuenv.paste.gpus import GpuReader
from gpuenv.paste.packages import PackageReader
from gpuenv.paste.records import Pasted, Said
from gpuenv.probe.smi import parse_banner

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_QUOTED = re.compile(r"^(?:> ?)+")
_LONGEST = 4096
_MOST = 2000  # facts


def decoded(data: bytes) -> str:
    """The text of a file: UTF-8, or the UTF-16 that PowerShell writes; what is neither is replaced."""
    is_wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if is_wide else "utf-8-sig", errors="replace")


def read_paste(text: str) -> Pasted:
    """What a text says of a machine and an environment; lines of no known output are passed over."""
    gpus, packages = GpuReader(), PackageReader()
    said: list[Said] = []
    seen: dict[str, None] = {}
    musl = 0
    for number, line in _lines(text):
        for form in (gpus.look(line), packages.look(line)):
            if form is not None:
                seen[form] = None
        told = [Said(fact, value, form, number) for form, fact, value in _told(line)]
        if forms.MUSL.match(line):
            musl = number
        release = forms.MUSL_RELEASE.match(line)
        if release and musl and number - musl == 1:
            told.append(Said("libc", f"musl-{release[1]}", forms.LDD, number))
        seen.update(dict.fromkeys(entry.form for entry in told))
        said.extend(told[: _MOST - len(said)])
    return Pasted(
        said=tuple(said),
        gpus={form: tuple(entries.values()) for form, entries in gpus.found.items()},
        packages=packages.found,
        listings=tuple(packages.listings),
        forms=tuple(seen),
    )


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines as they were printed: without colours, quotation marks of mail and fences."""
    for number, line in enumerate(text.splitlines(), 1):
        yield number, _QUOTED.sub("", _ESCAPES.sub("", line[:_LONGEST])).rstrip()


def _told(line: str) -> Iterator[tuple[str, str, str]]:
    if "NVIDIA-SMI " in line:
        for fact, value in zip(("driver", "driver-cuda"), parse_banner(line + " "), strict=True):
            if value is not None:
                yield forms.SMI, fact, value
    variable = forms.VARIABLE.match(line.strip())
    if variable:
        yield forms.ENV, f"env.{variable[1]}", variable[2]
    if forms.WSL.search(line):
        yield forms.UNAME, "wsl", "yes"
    for form in forms.LINES:
        match = form.pattern.match(line)
        if match is None:
            continue
        value = form.read(match[1].strip())
        if form.fact == "platform":
            yield from _platform(form.form, value)
        else:
            yield form.form, form.fact, value


def _platform(form: str, text: str) -> Iterator[tuple[str, str, str]]:
    """``Linux-6.8.0-45-generic-x86_64-with-glibc2.35``, as Python's platform module writes it."""
    match = forms.PLATFORM.match(text)
    if match is None:
        return
    yield form, "os", operating_system(match["os"])
    if match["os"] == "Linux":
        yield form, "kernel", match["kernel"]
    if match["arch"]:
        yield form, "arch", match["arch"].lower()
    if match["libc"]:
        yield form, "libc", re.sub(r"^(glibc|musl)", r"\1-", match["libc"])
