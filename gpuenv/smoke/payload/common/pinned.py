"""Pinned memory of the host, as much of it as the system gives."""

from __future__ import annotations

from typing import Any, Callable

from gpuenv.smoke.payload.harness import cuda_status
from gpuenv.smoke.payload.troubles import MEMORY_ALLOCATION

LEAST = 1 << 17  # elements


def pinned(count: int, dtype: Any) -> Any:
    """An array of so many elements, or of fewer; what is in it nobody knows."""
    import cupyx

    return longest(lambda n: cupyx.empty_pinned((n,), dtype=dtype), count)


def longest(make: Callable[[int], Any], count: int) -> Any:
    """An array of so many elements, or of half as many, and so on: WSL and some containers pin little memory."""
    while True:
        try:
            return make(count)
        except RuntimeError as error:
            if cuda_status(error) != MEMORY_ALLOCATION or count <= LEAST:
                raise
            count //= 2
