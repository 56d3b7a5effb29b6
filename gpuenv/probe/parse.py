"""Texts and numbers of a source to typed answers; what makes no sense is no answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePath
from typing import TypeVar

from gpuenv.model.reading import Answer
from gpuenv.model.versions import DriverVersion

V = TypeVar("V")
A = TypeVar("A")

_FILE_VERSION = re.compile(r"\.so\.(\d{3}\.\d+(?:\.\d+)?)$")


def parsed(parse: Callable[[A], V], given: A | None, source: str) -> Answer[V] | None:
    """A source's answer as a value, or None where it gave none that makes sense."""
    if given is None:
        return None
    try:
        return Answer(parse(given), source)
    except ValueError:
        return None


def file_version(path: str | None) -> Answer[DriverVersion] | None:
    """The driver version in the name of one of its libraries, ``libcuda.so.580.95.05``."""
    match = _FILE_VERSION.search(path or "")
    return Answer(DriverVersion.parse(match[1]), f"the name of {PurePath(path or '').name}") if match else None


def pci_key(address: str | None) -> str | None:
    """One spelling for a PCI address: ``00000000:17:00.0`` and ``0000:17:00.0`` are the same device."""
    match = re.fullmatch(r"(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-9a-fA-F])", address or "")
    if not match:
        return None
    return f"{int(match[1] or '0', 16):04x}:{match[2]}:{match[3]}.{match[4]}".lower()


def uuid_key(uuid: str | None) -> str | None:
    """The bare digits of a UUID: libcuda prints it without the ``GPU-``."""
    digits = re.sub(r"^(GPU|MIG)-", "", uuid or "").lower()
    return digits or None
