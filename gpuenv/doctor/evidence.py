"""Facts of a Snapshot as evidence."""

from __future__ import annotations

from typing import TypeVar

from gpuenv.model.finding import Evidence
from gpuenv.model.reading import Reading
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.spelt import spelt

_BRINGERS = ("torch", "jax", "tensorflow")
T = TypeVar("T")


def fact(path: str, reading: Reading[T]) -> tuple[Evidence, ...]:
    """The value settled on and those that differ; why it is missing, where it is."""
    if reading.value is None:
        return (Evidence(path, "unknown", reading.reason or "no source could tell"),)
    first = Evidence(path, spelt(reading.value), reading.source or "")
    return (first, *(Evidence(path, spelt(answer.value), answer.source) for answer in reading.dissent))


def source(snapshot: Snapshot, name: str) -> tuple[Evidence, ...]:
    """How the asking of a source ended."""
    state = snapshot.source(name)
    return (Evidence(f"the answer of {name}", state.state.value, state.detail or f"{state.duration:.1f} s"),)


def cuda_bringers(snapshot: Snapshot) -> tuple[Evidence, ...]:
    """The frameworks that are there and have brought CUDA libraries along."""
    packages = snapshot.target.packages
    return tuple(
        Evidence(f"target.packages.{name}", packages[name], "its metadata") for name in _BRINGERS if name in packages
    )


def searched(snapshot: Snapshot) -> tuple[Evidence, ...]:
    """Where the target's loader looks first, and which environment it is."""
    told = snapshot.environment.get("LD_LIBRARY_PATH")
    return (
        Evidence("environment.LD_LIBRARY_PATH", told or "not set", "the environment"),
        *fact("target.prefix", snapshot.target.prefix),
    )
