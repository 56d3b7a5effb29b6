"""Facts of a Snapshot, and lines of the kernel's log, as evidence."""

from __future__ import annotations

import re
from collections.abc import Iterable
from operator import attrgetter
from typing import TypeVar

from gpuenv.model.finding import Evidence
from gpuenv.model.nvidia import HARDWARE
from gpuenv.model.reading import Reading
from gpuenv.model.snapshot import KernelMessage, Snapshot
from gpuenv.model.text import pattern, spelt

_BRINGERS = ("torch", "jax", "tensorflow")
T = TypeVar("T")


def fact(path: str, reading: Reading[T]) -> tuple[Evidence, ...]:
    """The value settled on and those that differ; why it is missing, where it is."""
    if reading.value is None:
        return (Evidence(path, "unknown", reading.reason or "no source could tell"),)
    first = Evidence(path, spelt(reading.value), reading.source or "")
    return (first, *(Evidence(path, spelt(answer.value), answer.source) for answer in reading.dissent))


def readings(snapshot: Snapshot, *paths: str) -> tuple[Evidence, ...]:
    """The evidence of several facts, each by its path in the Snapshot, such as ``driver.version``."""
    return tuple(entry for path in paths for entry in fact(path, attrgetter(path)(snapshot)))


def source(snapshot: Snapshot, name: str) -> tuple[Evidence, ...]:
    """How the asking of a source ended."""
    state = snapshot.source(name)
    return (Evidence(f"the answer of {name}", state.state.value, state.detail or f"{state.duration:.1f} s"),)


def cuda_bringers(snapshot: Snapshot) -> tuple[Evidence, ...]:
    """The installed frameworks that depend on CUDA libraries."""
    packages = snapshot.target.packages
    return tuple(
        Evidence(f"target.packages.{name}", packages[name], "its metadata") for name in _BRINGERS if name in packages
    )


def searched(snapshot: Snapshot) -> tuple[Evidence, ...]:
    """Where the target's loader looks first, and the environment's prefix."""
    told = snapshot.environment.get("LD_LIBRARY_PATH")
    return (
        Evidence("environment.LD_LIBRARY_PATH", told or "not set", "the environment"),
        *fact("target.prefix", snapshot.target.prefix),
    )


_TROUBLE = pattern(
    r"(?i)NVRM: .*(?:\bXid\b|fail|error|cannot|not supported|timed? ?out|no firmware)"
    r"|nvidia\S*:? .*(?:fail|error|\berr -?\d)"
)


def troubles(snapshot: Snapshot) -> tuple[Evidence, ...]:
    """The newest lines of the kernel's log in which the driver reports an error."""
    return lines_with(snapshot, _TROUBLE)


def hardware_lines(snapshot: Snapshot) -> tuple[KernelMessage, ...]:
    """The lines of the kernel's log that report a fault of hardware."""
    return tuple(message for message in snapshot.kernel_log.value or () if message.xid in HARDWARE)


def event_evidence(snapshot: Snapshot) -> tuple[Evidence, ...]:
    """The newest of these lines."""
    return logged(snapshot, [event.text for event in hardware_lines(snapshot)[-3:]])


def lines_with(snapshot: Snapshot, words: re.Pattern[str]) -> tuple[Evidence, ...]:
    """The newest lines of the kernel's log that match a pattern."""
    lines = [message.text for message in snapshot.kernel_log.value or () if words.search(message.text)]
    return logged(snapshot, lines[-3:])


def logged(snapshot: Snapshot, lines: Iterable[str]) -> tuple[Evidence, ...]:
    """Lines of the kernel's log as evidence."""
    return tuple(Evidence("kernel_log", line, snapshot.kernel_log.source or "") for line in lines)
