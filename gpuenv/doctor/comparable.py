"""A Snapshot as named texts that can be held against another machine's.

What tells machines apart by nature is left out: a UUID, a PCI address, a temperature or a home folder always differs
and explains nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from gpuenv.matrix.needs import driver_absent
from gpuenv.model.gpu import Gpu
from gpuenv.model.presence import seen_to_be_absent
from gpuenv.model.reading import Reading
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.spelt import NONE, spelt
from gpuenv.model.target import Library

_OF_PLACES = (
    "executable",
    "prefix",
    "user_site",
    "cupy_module",
    "numpy_module",
    "numpy_fault",
    "pathfinder_hidden_by",
    "cuda_path",
    "headers",
)
_HEALTH = ("ecc", "pages_pending", "rows_pending", "rows_failed", "throttle_reasons")


def comparable(snapshot: Snapshot) -> dict[str, str]:
    """The facts by name; one that nobody could tell is left out."""
    return dict(_facts(snapshot))


def _facts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    yield from _readings("host", snapshot.host)
    yield from _readings("driver", snapshot.driver, leaving=("nvml_library", "cuda_library"))
    yield from _readings("target", snapshot.target, leaving=_OF_PLACES)
    yield from _readings("grant", snapshot.grant, leaving=("devices",))
    yield from _readings("mps", snapshot.mps)
    yield from _readings("container_support", snapshot.container_support)
    yield from _absent(snapshot)
    for name in ("gpu_count", "visible_count", "rocm"):
        yield from _reading(name, getattr(snapshot, name))
    yield from _gpus(snapshot)
    yield from _target(snapshot)
    yield from _device_nodes(snapshot)
    if snapshot.toolkits:
        yield "toolkits", _listed(str(kit.toolkit.value or "of unknown version") for kit in snapshot.toolkits)
    for name, value in snapshot.environment.items():
        yield f"environment.{name}", value


def _absent(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """What was looked for and is not there is a fact as well; what nobody could tell is none."""
    if not snapshot.driver.version.known and driver_absent(snapshot):
        yield "driver.version", NONE
    if not snapshot.gpu_count.known and seen_to_be_absent(snapshot):
        yield "gpu_count", NONE


def _readings(path: str, record: Any, leaving: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - any record
    for entry in fields(record):
        value = getattr(record, entry.name)
        if isinstance(value, Reading) and entry.name not in leaving:
            yield from _reading(f"{path}.{entry.name}", value)


def _reading(path: str, reading: Reading[Any]) -> Iterator[tuple[str, str]]:
    if reading.value is not None:
        yield path, _text(reading.value)


def _text(value: Any) -> str:  # noqa: ANN401 - a reading's value
    return _listed(map(spelt, value)) if isinstance(value, tuple) else spelt(value)


def _listed(texts: Iterator[str] | map[str]) -> str:
    return ", ".join(sorted(set(texts))) or NONE


def _gpus(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """GPUs by kind: their order and addresses are each machine's own."""
    if not snapshot.gpus:
        return
    for name, tell in _OF_A_GPU.items():
        counted = Counter(text for gpu in snapshot.gpus if (text := tell(gpu)) is not None)
        if counted:
            yield name, ", ".join(f"{count} x {text}" for text, count in sorted(counted.items()))
    for field in _HEALTH:
        readings = [getattr(gpu.health, field) for gpu in snapshot.gpus]
        told = [_text(reading.value) for reading in readings if reading.known]
        if told:
            yield f"gpus[].health.{field}", _listed(iter(told))


def _memory(gpu: Gpu) -> str | None:
    total = gpu.memory_total.value
    return None if total is None else f"{total / 2**30:.0f} GiB"


_OF_A_GPU: Mapping[str, Callable[[Gpu], str | None]] = {
    "gpus[].name": lambda gpu: gpu.name.value,
    "gpus[].compute_capability": lambda gpu: (
        str(gpu.compute_capability.value) if gpu.compute_capability.known else None
    ),
    "gpus[].memory_total": _memory,
    "gpus[].mig": lambda gpu: None if gpu.mig.value is None else ("MIG on" if gpu.mig.value else "MIG off"),
    "gpus[].compute_mode": lambda gpu: gpu.compute_mode.value and gpu.compute_mode.value.value,
    "gpus[].virtualization": lambda gpu: gpu.virtualization.value and gpu.virtualization.value.value,
    "gpus[].hidden_by": lambda gpu: gpu.hidden_by.value,
    "gpus[].fabric.state": lambda gpu: gpu.fabric.state.value,
}


def _target(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    target = snapshot.target
    if target.python.known or target.cupy or "target.cupy" in snapshot.assumed:
        yield "target.cupy", _listed(entry.label for entry in target.cupy)
    for name, release in target.packages.items():
        if not name.startswith("cupy"):  # told above
            yield f"target.packages.{name}", release
    yield from _libraries(target.libraries)


def _libraries(libraries: tuple[Library, ...]) -> Iterator[tuple[str, str]]:
    for library in libraries:
        if library.path is None:
            yield f"target.libraries.{library.name}", "not found"
        else:
            release = f" {library.release}" if library.release else ""
            yield f"target.libraries.{library.name}", f"{library.soname}{release} by {library.found_via or 'loader'}"


def _device_nodes(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    for node in snapshot.driver.device_nodes:
        yield f"driver.device_nodes.{node.path}", "accessible" if node.accessible else "not accessible"


def told_by_both(there: Mapping[str, str], here: Mapping[str, str]) -> int:
    """How many facts both machines told."""
    return len(there.keys() & here.keys())
