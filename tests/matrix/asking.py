"""A machine in a few words, and what the resolver answers for it."""

from __future__ import annotations

from gpuenv.matrix.assume import assume
from gpuenv.matrix.resolve import resolve
from gpuenv.matrix.tables import Matrix
from gpuenv.model.resolution import Resolution, WheelChoice
from gpuenv.model.snapshot import Snapshot

LINUX = ("os=linux", "arch=x86_64", "libc=glibc-2.36", "python=3.12")


def machine(matrix: Matrix, *given: str) -> Snapshot:
    """A machine with these facts; a usual Linux unless they say otherwise."""
    return assume(Snapshot(), (*LINUX, *given), matrix)


def resolved(matrix: Matrix, *given: str) -> Resolution:
    return resolve(machine(matrix, *given), matrix)


def chosen(matrix: Matrix, *given: str) -> WheelChoice:
    """The wheel; a machine that none fits is an error of the test, told in the resolver's words."""
    resolution = resolved(matrix, *given)
    assert resolution.wheel is not None, resolution.explanation
    return resolution.wheel
