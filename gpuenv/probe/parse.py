"""Texts and numbers of a source to typed answers; what makes no sense is no answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import TypeVar

from gpuenv.model.reading import Answer, Reading, known, missing
from gpuenv.model.text import pattern
from gpuenv.model.versions import DriverVersion

V = TypeVar("V")
A = TypeVar("A")

NO_SOURCE = "no source could tell"
_FILE_VERSION = pattern(r"\.so\.(\d{3}\.\d+(?:\.\d+)?)$")


def parsed(parse: Callable[[A], V], given: A | None, source: str) -> Answer[V] | None:
    """A source's answer as a value, or None where it gave none that makes sense."""
    if given is None:
        return None
    try:
        return Answer(parse(given), source)
    except ValueError:
        return None


def said(source: str, value: V | None) -> Answer[V] | None:
    """A source's answer, or None where it gave none."""
    return None if value is None else Answer(value, source)


def fact(source: str, value: V | None, reason: str | None = NO_SOURCE) -> Reading[V]:
    """What one source alone can tell; where it told nothing, the reason."""
    return missing(reason or NO_SOURCE) if value is None else known(value, source)


def file_version(path: str | None) -> Answer[DriverVersion] | None:
    """The driver version in the name of one of its libraries, ``libcuda.so.580.95.05``."""
    match = _FILE_VERSION.search(path or "")
    return Answer(DriverVersion.parse(match[1]), f"the name of {PurePath(path or '').name}") if match else None
