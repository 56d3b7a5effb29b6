"""Facts of a Snapshot, and lines of the kernel's log, as evidence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import TypeVar

from gpuenv.model.finding import Evidence
from gpuenv.model.nvidia import HARDWARE_XIDS
from gpuenv.model.reading import Reading
from gpuenv.model.snapshot import KernelMessage, PciGpu, Snapshot
from gpuenv.model.strings import format_value, pattern

_BRINGERS = ("torch", "jax", "tensorflow")
_SOURCES = ("nvml", "libcuda", "nvidia-smi", "target", "libraries")
# Where the target's loader looks first, and the environment's prefix.
SEARCHED = ("environment.LD_LIBRARY_PATH", "target.prefix")
T = TypeVar("T")


def fact(path: str, reading: Reading[T]) -> tuple[Evidence, ...]:
    """The value settled on and those that differ; why it is missing, where it is."""
    if reading.value is None:
        return (Evidence(path, "unknown", reading.reason or "no source could tell"),)
    first = Evidence(path, format_value(reading.value), reading.source or "")
    return (first, *(Evidence(path, format_value(answer.value), answer.source) for answer in reading.dissent))


def evidence_of(snapshot: Snapshot, *names: str) -> tuple[Evidence, ...]:
    """The evidence of several facts by their names.

    A name is a path in the Snapshot (``driver.version``, ``gpus[0].mig``), a variable (``environment.CUDA_PATH``), or a
    source, such as ``nvml``, of which it is told how it ended.
    """
    return tuple(entry for name in names for entry in _named(snapshot, name))


def _named(snapshot: Snapshot, name: str) -> tuple[Evidence, ...]:
    if name in _SOURCES:
        state = snapshot.source(name)
        return (Evidence(f"the answer of {name}", state.state.value, state.detail or f"{state.duration:.1f} s"),)
    if name.startswith("environment."):
        value = snapshot.environment.get(name.removeprefix("environment."))
        return (Evidence(name, value or "not set", "the environment"),)
    if name.startswith("gpus["):
        index, _, path = name.removeprefix("gpus[").partition("].")
        return fact(name, attrgetter(path)(snapshot.gpus[int(index)]))
    return fact(name, attrgetter(name)(snapshot))


def packages_as_evidence(packages: Mapping[str, str]) -> tuple[Evidence, ...]:
    """Distributions of the target, each with its release."""
    return tuple(Evidence(f"target.packages.{name}", release, "its metadata") for name, release in packages.items())


def cuda_bringers(snapshot: Snapshot) -> tuple[Evidence, ...]:
    """The installed frameworks that depend on CUDA libraries."""
    packages = snapshot.target.packages
    return packages_as_evidence({name: packages[name] for name in _BRINGERS if name in packages})


_TROUBLE = pattern(
    r"(?i)NVRM: .*(?:\bXid\b|fail|error|cannot|not supported|timed? ?out|no firmware)"
    r"|nvidia\S*:? .*(?:fail|error|\berr -?\d)"
)


def troubles(snapshot: Snapshot) -> tuple[Evidence, ...]:
    """The newest lines of the kernel's log in which the driver reports an error."""
    return lines_with(snapshot, _TROUBLE)


def hardware_lines(snapshot: Snapshot) -> tuple[KernelMessage, ...]:
    """The lines of the kernel's log that report a fault of hardware."""
    return tuple(message for message in snapshot.kernel_log.value or () if message.xid in HARDWARE_XIDS)


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


def holders(gpus: Iterable[PciGpu]) -> tuple[Evidence, ...]:
    """The kernel driver that each GPU on the bus is bound to."""
    return tuple(
        Evidence(f"kernel driver of {gpu.pci}", gpu.kernel_driver or "none", "/sys/bus/pci/devices") for gpu in gpus
    )
