"""Evidence from the facts of a snapshot and from lines of the kernel log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any

from gpuenv.model.finding import Evidence
from gpuenv.model.nvidia import HARDWARE_XIDS
from gpuenv.model.reading import Reading
from gpuenv.model.snapshot import KernelMessage, PciGpu, Snapshot
from gpuenv.model.strings import format_value

_CUDA_FRAMEWORKS = ("torch", "jax", "tensorflow")
_SOURCES = ("nvml", "libcuda", "nvidia-smi", "target", "libraries")
# The folders that the target's loader searches first, and the environment's prefix.
SEARCH_PATHS = ("environment.LD_LIBRARY_PATH", "target.prefix")


def fact(path: str, reading: Reading[Any]) -> tuple[Evidence, ...]:
    """The value of a reading and dissenting ones; for an unknown one the reason."""
    if reading.value is None:
        return (Evidence(path, "unknown", reading.reason or "no source has it"),)
    first = Evidence(path, format_value(reading.value), reading.source or "")
    return (first, *(Evidence(path, format_value(answer.value), answer.source) for answer in reading.dissent))


def evidence_of(snapshot: Snapshot, *names: str) -> tuple[Evidence, ...]:
    """Evidence of several facts by name.

    A name is a path in the snapshot (``driver.version``, ``gpus[0].mig``), a variable (``environment.CUDA_PATH``), or a
    source, such as ``nvml``, whose outcome it shows.
    """
    return tuple(entry for name in names for entry in _named(snapshot, name))


def _named(snapshot: Snapshot, name: str) -> tuple[Evidence, ...]:
    if name in _SOURCES:
        state = snapshot.source(name)
        return (Evidence(f"status of {name}", state.state.value, state.detail or f"{state.duration:.1f} s"),)
    if name.startswith("environment."):
        value = snapshot.environment.get(name.removeprefix("environment."))
        return (Evidence(name, value or "not set", "the environment"),)
    if name.startswith("gpus["):
        index, _, path = name.removeprefix("gpus[").partition("].")
        return fact(name, attrgetter(path)(snapshot.gpus[int(index)]))
    return fact(name, attrgetter(name)(snapshot))


def packages_as_evidence(packages: Mapping[str, str]) -> tuple[Evidence, ...]:
    """Distributions of the target with their releases."""
    return tuple(Evidence(f"target.packages.{name}", release, "its metadata") for name, release in packages.items())


def cuda_frameworks(snapshot: Snapshot) -> tuple[Evidence, ...]:
    """Installed frameworks that depend on CUDA libraries."""
    packages = snapshot.target.packages
    return packages_as_evidence({name: packages[name] for name in _CUDA_FRAMEWORKS if name in packages})


def hardware_events(snapshot: Snapshot) -> tuple[KernelMessage, ...]:
    """The lines of the kernel log that report a hardware fault."""
    return tuple(message for message in snapshot.kernel_log.value or () if message.xid in HARDWARE_XIDS)


def hardware_event_evidence(snapshot: Snapshot) -> tuple[Evidence, ...]:
    """The newest hardware events."""
    return log_evidence(snapshot, [event.text for event in hardware_events(snapshot)[-3:]])


def matching_log_lines(snapshot: Snapshot, regex: re.Pattern[str]) -> tuple[Evidence, ...]:
    """The newest lines of the kernel log that match a pattern."""
    lines = [message.text for message in snapshot.kernel_log.value or () if regex.search(message.text)]
    return log_evidence(snapshot, lines[-3:])


def log_evidence(snapshot: Snapshot, lines: Iterable[str]) -> tuple[Evidence, ...]:
    """Lines of the kernel log as evidence."""
    return tuple(Evidence("kernel_log", line, snapshot.kernel_log.source or "") for line in lines)


def kernel_drivers(gpus: Iterable[PciGpu]) -> tuple[Evidence, ...]:
    """The kernel driver that each GPU on the bus is bound to."""
    return tuple(
        Evidence(f"kernel driver of {gpu.pci}", gpu.kernel_driver or "none", "/sys/bus/pci/devices") for gpu in gpus
    )
