"""The matrix product of whole numbers: int8, which wraps around, and int32."""

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.common.matrix import product_memory

TITLE = "matrix product of whole numbers"
LEVELS = {"normal": {"n": 256}, "deep": {"n": 768}}
TOLERANCE = "exact: sums of int8 wrap around as NumPy's do"
SHRINKS = "n"
EXACT_REPEAT = True


def inputs(random, size):
    n = size["n"]
    return {
        "a": random.integers(-128, 128, size=(n, n + 8), dtype=np.int8),
        "b": random.integers(-128, 128, size=(n + 8, n + 16), dtype=np.int8),
    }


def expect(given):
    # |sum| < 2**53: the product in double precision is exact.
    value = np.rint(given["a"].astype("d") @ given["b"].astype("d")).astype(np.int64)
    return {"int8": exact(value.astype(np.int8)), "int32": exact(value.astype(np.int32))}


def run(gpu, given):
    a, b = gpu.up(given["a"]), gpu.up(given["b"])
    return {"int8": gpu.down(a @ b), "int32": gpu.down(a.astype(np.int32) @ b.astype(np.int32))}


def memory(size):
    return product_memory(size, 4)
