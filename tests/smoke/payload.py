"""The GPU tests of the payload, imported without CuPy, with their smallest inputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from gpuenv.smoke.payload.harness import load_test
from gpuenv.smoke.tasks import all_tests

NAMES = tuple(sorted(test.name for test in all_tests()))
LEVELS = ("quick", "normal", "deep")


def gpu_test(which: str) -> Any:  # noqa: ANN401 - without types
    return load_test(which)


@dataclass(frozen=True, slots=True)
class Example:
    """An input and its expected answers."""

    inputs: Any
    expected: Any


def example(which: str, seed: int = 7, level: str | None = None) -> Example:
    """The input and answers of the test's lowest level, in smaller sizes, or of another."""
    lowest = next(level for level in LEVELS if level in gpu_test(which).LEVELS)
    return _lowest_example(which, seed) if level in (None, lowest) else _example(which, seed, level or lowest)


@cache
def _lowest_example(which: str, seed: int) -> Example:
    return _example(which, seed, next(level for level in LEVELS if level in gpu_test(which).LEVELS))


def _example(which: str, seed: int, level: str) -> Example:
    test = gpu_test(which)
    size = test.LEVELS[level]
    if which in SMALLER and level == next(level for level in LEVELS if level in test.LEVELS):
        size = {**size, **SMALLER[which]}
    inputs = test.inputs(np.random.default_rng(seed), size)
    return Example(inputs, test.expect(inputs))


# Sizes for tests whose own sizes take a processor too long; the expected answers do not depend on the size.
SMALLER: dict[str, dict[str, int]] = {
    "blas.rates": {"n": 300, "host": 64},
    "health.sustained": {"n": 256},
    "fft.rates": {"n": 1024},
    "transfer.rates": {"mib": 1},
    "transfer.profile": {"mib": 1},
    "streams.overlap": {"mib": 1},
    "memory.chunks": {"mib": 1},
    "memory.limit": {"mib": 1},
    "memory.pool": {"kib": 64},
    "kernels.grid_stride": {"n": 20011},
    "multi.nccl": {"n": 1009},
}


class CUDARuntimeError(RuntimeError):
    """Has the name and the attribute of CuPy's class."""

    def __init__(self, status: int) -> None:
        super().__init__("words")
        self.status = status
