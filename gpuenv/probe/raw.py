"""The raw answers of all sources, and their conversion to readings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import PurePath
from types import GenericAlias
from typing import Any, NamedTuple, TypeVar

from gpuenv.model.codec import DecodeError, decode
from gpuenv.model.nvidia import pci_key, xid_event
from gpuenv.model.reading import Answer, Reading, known, missing
from gpuenv.model.redaction import cut_text
from gpuenv.model.snapshot import KernelMessage, Source
from gpuenv.model.strings import pattern
from gpuenv.model.versions import DriverVersion

V = TypeVar("V")
A = TypeVar("A")

NO_SOURCE = "no source reports it"
NOT_READ = "not checked"
_LONGEST_MESSAGE = 400  # characters shown of a line of the kernel log
_NAMED_GPU = pattern(
    r"NVRM: (?:GPU |GPU at )(?:PCI:)?((?:[0-9a-f]{4,8}:)[0-9a-f]{2}:[0-9a-f]{2})(\.[0-7])?", re.IGNORECASE
)
_FILE_VERSION = pattern(r"\.so\.(\d{3}\.\d+(?:\.\d+)?)$")


class Raw:
    """The facts that one source printed, by name, as decoded JSON; a fact of an unexpected type counts as missing."""

    __slots__ = ("_facts",)

    def __init__(self, facts: Mapping[str, Any] | None = None) -> None:
        self._facts = facts or {}

    def __bool__(self) -> bool:
        return bool(self._facts)

    def __contains__(self, name: str) -> bool:
        return name in self._facts

    def get(self, name: str, kind: type[V]) -> V | None:
        """A fact of a type that ``gpuenv.model.codec`` decodes: a scalar, a record, a tuple or a mapping of these."""
        value = self._facts.get(name)
        try:
            return None if value is None else decode(kind, value)
        except DecodeError:
            return None

    def text(self, name: str) -> str | None:
        """A text."""
        return self.get(name, str)

    def all(self, name: str, kind: type[V]) -> tuple[V, ...]:
        """A list of records; empty if missing."""
        found: Any = self.get(name, GenericAlias(tuple, (kind, ...)))  # type: ignore[arg-type]
        return found or ()

    def part(self, name: str) -> Raw:
        """A fact with facts of its own."""
        value = self._facts.get(name)
        return Raw(value if isinstance(value, dict) else None)

    def parts(self, name: str) -> tuple[Raw, ...]:
        """A list of such facts."""
        value = self._facts.get(name)
        return tuple(Raw(entry) for entry in value if isinstance(entry, dict)) if isinstance(value, list) else ()

    def plus(self, **facts: object) -> Raw:
        """These facts with others added."""
        return Raw({**self._facts, **facts})

    def reading(self, name: str, kind: type[V], source: str, reason: str | None = NO_SOURCE) -> Reading[V]:
        """The reading of a fact that only this source has; if missing, with the reason."""
        return reading(source, self.get(name, kind), reason)


class ListedGpu(NamedTuple):
    """A GPU as one source lists it; None is unknown."""

    number: int | None = None  # NVML's index, or CUDA's ordinal
    uuid: str | None = None  # ``GPU-...``
    name: str | None = None  # the driver's name for it
    pci: str | None = None
    compute_capability: str | None = None  # ``9.0``
    memory_total: int | None = None  # bytes
    more: Raw = Raw()  # all facts of the source about it


class SmiFacts(NamedTuple):
    """The output of nvidia-smi."""

    driver_version: str | None = None  # ``580.95.05``
    cuda: str | None = None  # the CUDA level that it shows, ``13.0``
    gpus: tuple[ListedGpu, ...] | None = None  # None without a valid list


class RawFacts(NamedTuple):
    """The raw answers of all sources."""

    kernel: Raw = Raw()  # from the kernel's files: the table at the end of ``scripts/kernel.py`` names the facts
    nvcc: Mapping[str, str] = {}  # the release of each toolkit's compiler, by folder
    nvml: Raw = Raw()  # from NVML, its GPUs in ``gpus``
    cuda: Raw = Raw()  # from libcuda, its devices in ``devices``
    smi: SmiFacts = SmiFacts()  # from nvidia-smi
    target: Raw = Raw()  # from its interpreter: the table at the end of ``scripts/interpreter.py`` names the facts
    target_path: str | None = None  # the target's interpreter; None if not found
    target_named_by: str = "the caller"  # its origin: an option, a variable, or PATH
    examined_as: str | None = None  # the owner as whom root examined it
    target_reason: str | None = None  # why it printed nothing
    libraries: Raw = Raw()  # from the target's loader
    files: Raw = Raw()  # from the installed files
    environment: Mapping[str, str] = {}  # the caller's variables that affect GPU, CUDA and Python
    sources: tuple[Source, ...] = ()  # how each probe ended


def parse_answer(parse: Callable[[A], V], text: A | None, source: str) -> Answer[V] | None:
    """A source's answer as a value; None if it is missing or invalid."""
    if text is None:
        return None
    try:
        return Answer(parse(text), source)
    except ValueError:
        return None


def answer(source: str, value: V | None) -> Answer[V] | None:
    """A source's answer; None if it is missing."""
    return None if value is None else Answer(value, source)


def reading(source: str, value: V | None, reason: str | None = NO_SOURCE) -> Reading[V]:
    """A reading that only one source has; if missing, with the reason."""
    return missing(reason or NO_SOURCE) if value is None else known(value, source)


def file_version(path: str | None) -> Answer[DriverVersion] | None:
    """The driver version in a library's file name, such as ``libcuda.so.580.95.05``."""
    match = _FILE_VERSION.search(path or "")
    return Answer(DriverVersion.parse(match[1]), f"the name of {PurePath(path or '').name}") if match else None


def parse_message(text: str) -> KernelMessage:
    """A line of the kernel log with the Xid event or the GPU that it names."""
    text = cut_text(text, _LONGEST_MESSAGE)
    event = xid_event(text)
    if event:
        return KernelMessage(text, *event)
    match = _NAMED_GPU.search(text)
    return KernelMessage(text, None, pci_key(f"{match[1]}{match[2] or '.0'}") if match else None)
