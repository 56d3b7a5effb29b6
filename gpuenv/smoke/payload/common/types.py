"""The types that NumPy and CuPy share, and numbers of each that keep every operation defined."""

from __future__ import annotations

import numpy as np


def small_numbers(random, code, n):
    """Numbers from 1 to 9, exact in every type; of a bool, true and false by turns."""
    whole = random.integers(1, 10, size=n)
    if code == "?":
        return whole % 2 == 1
    return whole.astype(np.dtype(code))


def name(code):
    """``int32`` for ``i``."""
    return np.dtype(code).name
