"""The payload's tests as this process sees them: imported without CuPy, given their smallest input."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import gpuenv.smoke.payload.tests

FOLDER = Path(gpuenv.smoke.payload.tests.__file__).parent
MODULES = tuple(sorted(path.stem for path in FOLDER.glob("*_*.py") if not path.stem.startswith("__")))
LEVELS = ("quick", "normal", "deep")


def module(stem: str) -> Any:  # noqa: ANN401 - a module
    return importlib.import_module(f"gpuenv.smoke.payload.tests.{stem}")


@dataclass(frozen=True, slots=True)
class Example:
    """An input and its expected answers."""

    given: Any
    expected: Any


@cache
def example(stem: str, seed: int = 7) -> Example:
    """The test's smallest level."""
    test = module(stem)
    size = next(test.LEVELS[level] for level in LEVELS if level in test.LEVELS)
    if stem in SMALLER:
        size = {**size, **SMALLER[stem]}
    given = test.inputs(np.random.default_rng(seed), size)
    return Example(given, test.expect(given))


# Tests that measure take sizes that a processor works long on; what is expected of them does not depend on the size.
SMALLER: dict[str, dict[str, int]] = {
    "blas_rates": {"n": 300, "host": 64},
    "health_sustained": {"n": 300},
    "fft_rates": {"n": 1024},
    "transfer_rates": {"mib": 1},
    "streams_overlap": {"mib": 1},
    "memory_chunks": {"mib": 1},
    "memory_limit": {"mib": 1},
    "memory_pool": {"kib": 64},
    "kernels_grid_stride": {"n": 20011},
    "multi_nccl": {"n": 1009},
}


class CUDARuntimeError(RuntimeError):
    """As CuPy's, by name and attribute."""

    def __init__(self, status: int) -> None:
        super().__init__("words")
        self.status = status
