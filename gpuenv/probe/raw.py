"""What each source answered, before anything is settled, and how an answer becomes a reading."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import PurePath
from types import GenericAlias
from typing import Any, NamedTuple, TypeVar

from gpuenv.model.codec import DecodeError, decode
from gpuenv.model.nvidia import pci_key, xid_event
from gpuenv.model.reading import Answer, Reading, known, missing
from gpuenv.model.snapshot import KernelMessage, Source
from gpuenv.model.strings import pattern
from gpuenv.model.versions import DriverVersion

V = TypeVar("V")
A = TypeVar("A")

NO_SOURCE = "no source could tell"
NOT_READ = "nobody looked"
_NAMED_GPU = pattern(
    r"NVRM: (?:GPU |GPU at )(?:PCI:)?((?:[0-9a-f]{4,8}:)[0-9a-f]{2}:[0-9a-f]{2})(\.[0-7])?", re.IGNORECASE
)
_FILE_VERSION = pattern(r"\.so\.(\d{3}\.\d+(?:\.\d+)?)$")


class Raw:
    """The facts that one source printed, by name, as JSON has them; one of another form than asked for is none."""

    __slots__ = ("_facts",)

    def __init__(self, facts: Mapping[str, Any] | None = None) -> None:
        self._facts = facts or {}

    def __bool__(self) -> bool:
        return bool(self._facts)

    def __contains__(self, name: str) -> bool:
        return name in self._facts

    def get(self, name: str, kind: type[V]) -> V | None:
        """A fact of a type that ``gpuenv.model.codec`` reads: a scalar, a record, a tuple or a mapping of these."""
        value = self._facts.get(name)
        try:
            return None if value is None else decode(kind, value)
        except DecodeError:
            return None

    def text(self, name: str) -> str | None:
        """A fact that is a text."""
        return self.get(name, str)

    def all(self, name: str, kind: type[V]) -> tuple[V, ...]:
        """A list of records, empty where the source did not tell it."""
        found: Any = self.get(name, GenericAlias(tuple, (kind, ...)))  # type: ignore[arg-type]
        return found or ()

    def part(self, name: str) -> Raw:
        """A fact that has facts of its own."""
        value = self._facts.get(name)
        return Raw(value if isinstance(value, dict) else None)

    def parts(self, name: str) -> tuple[Raw, ...]:
        """A list of such facts."""
        value = self._facts.get(name)
        return tuple(Raw(entry) for entry in value if isinstance(entry, dict)) if isinstance(value, list) else ()

    def plus(self, **facts: object) -> Raw:
        """These facts and more."""
        return Raw({**self._facts, **facts})

    def reading(self, name: str, kind: type[V], source: str, reason: str | None = NO_SOURCE) -> Reading[V]:
        """A fact that this source alone can tell; where it told nothing, the reason."""
        return reading(source, self.get(name, kind), reason)


class ListedGpu(NamedTuple):
    """A GPU as one source lists it; None is what that does not tell.

    Attributes:
        number: NVML's index, or CUDA's ordinal.
        uuid: ``GPU-...``.
        name: as the driver names it.
        pci: the address on the bus.
        compute_capability: ``9.0``.
        memory_total: bytes.
        more: all that the source tells of it.
    """

    number: int | None = None
    uuid: str | None = None
    name: str | None = None
    pci: str | None = None
    compute_capability: str | None = None
    memory_total: int | None = None
    more: Raw = Raw()


class SmiFacts(NamedTuple):
    """What nvidia-smi answers.

    Attributes:
        path: the program.
        driver_version: ``580.95.05``.
        cuda: the CUDA level that it shows, ``13.0``.
        gpus: None where it lists none that makes sense.
        complaint: its own error text.
    """

    path: str | None = None
    driver_version: str | None = None
    cuda: str | None = None
    gpus: tuple[ListedGpu, ...] | None = None
    complaint: str | None = None


class RawFacts(NamedTuple):
    """All that was answered, before anything is settled.

    Attributes:
        kernel: by the kernel's files: the table at the end of ``scripts/kernel.py`` names the facts.
        nvcc: what the compiler in each toolkit says, by the folder.
        nvml: by NVML, its GPUs in ``gpus``.
        cuda: by libcuda, its devices in ``devices``.
        smi: by nvidia-smi.
        target: by the target's interpreter: the table at the end of ``scripts/interpreter.py`` names the facts.
        target_path: the interpreter; None where there is none.
        target_named_by: who named it: an option, a variable, or PATH.
        target_reason: why it told nothing.
        libraries: by the target's loader.
        files: by the installed files.
        environment: the caller's variables that decide on GPU, CUDA and Python.
        sources: how each probe ended.
    """

    kernel: Raw = Raw()
    nvcc: Mapping[str, str] = {}
    nvml: Raw = Raw()
    cuda: Raw = Raw()
    smi: SmiFacts = SmiFacts()
    target: Raw = Raw()
    target_path: str | None = None
    target_named_by: str = "the caller"
    target_reason: str | None = None
    libraries: Raw = Raw()
    files: Raw = Raw()
    environment: Mapping[str, str] = {}
    sources: tuple[Source, ...] = ()


def parsed(parse: Callable[[A], V], given: A | None, source: str) -> Answer[V] | None:
    """A source's answer as a value, or None where it gave none that makes sense."""
    if given is None:
        return None
    try:
        return Answer(parse(given), source)
    except ValueError:
        return None


def answer(source: str, value: V | None) -> Answer[V] | None:
    """A source's answer, or None where it gave none."""
    return None if value is None else Answer(value, source)


def reading(source: str, value: V | None, reason: str | None = NO_SOURCE) -> Reading[V]:
    """What one source alone can tell; where it told nothing, the reason."""
    return missing(reason or NO_SOURCE) if value is None else known(value, source)


def file_version(path: str | None) -> Answer[DriverVersion] | None:
    """The driver version in the name of one of its libraries, ``libcuda.so.580.95.05``."""
    match = _FILE_VERSION.search(path or "")
    return Answer(DriverVersion.parse(match[1]), f"the name of {PurePath(path or '').name}") if match else None


def message_of(text: str) -> KernelMessage:
    """A line of the kernel's log with the Xid event or the GPU that it names."""
    event = xid_event(text)
    if event:
        return KernelMessage(text, *event)
    named = _NAMED_GPU.search(text)
    return KernelMessage(text, None, pci_key(f"{named[1]}{named[2] or '.0'}") if named else None)
