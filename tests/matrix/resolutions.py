"""Machines from a few assumed facts, and their resolutions."""

from __future__ import annotations

from gpuenv.matrix.assume import assume
from gpuenv.matrix.resolve import resolve
from gpuenv.matrix.tables import Matrix
from gpuenv.model.resolution import Resolution, WheelChoice
from gpuenv.model.snapshot import Snapshot

LINUX = ("os=linux", "arch=x86_64", "libc=glibc-2.36", "python=3.12")


def machine(matrix: Matrix, *facts: str) -> Snapshot:
    """A Linux machine (x86_64, glibc 2.36, Python 3.12) with these facts, which may override those."""
    return assume(Snapshot(), (*LINUX, *facts), matrix)


def resolution_of(matrix: Matrix, *facts: str) -> Resolution:
    return resolve(machine(matrix, *facts), matrix)


def choose_wheel(matrix: Matrix, *facts: str) -> WheelChoice:
    """The chosen wheel; fails with the resolver's explanation if none fits."""
    resolution = resolution_of(matrix, *facts)
    assert resolution.wheel is not None, resolution.explanation
    return resolution.wheel
