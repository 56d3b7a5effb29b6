"""The matrix product in bfloat16, which CuPy has from 14 on, by way of ml_dtypes."""

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.common.matrix import BFLOAT16_UNIT, TENSOR_UNIT, product, product_memory

TITLE = "matrix product in bfloat16"
LEVELS = {"normal": {"n": 512}, "deep": {"n": 2048}}
# With an older NumPy CuPy leaves bfloat16 out: those crash on loops of a type that is not theirs.
NEEDS = ["module:ml_dtypes", "cupy:14", "numpy:2.1.2", "capability:8.0"]
TOLERANCE = (
    "whole numbers that bfloat16 holds in every order of the sum: exact; others: gamma(2 k) |A| |B| for sums in single"
    " precision, cut off by tensor cores, and two roundings to bfloat16 of what they are summed from"
)
SHRINKS = "n"
TERMS = 100  # of a sum of the whole numbers, on average: bfloat16 holds every whole number up to 256


def inputs(random, size):
    n = size["n"]
    shapes = {"a": (n, n + 8), "b": (n + 8, n + 16)}
    # Eighths up to 8 have seven significant bits: bfloat16 holds them exactly.
    given = {name: (random.integers(-63, 64, size=shape) / 8.0).astype("f") for name, shape in shapes.items()}
    given.update({"whole_" + name: _signs(random, shape, n + 8) for name, shape in shapes.items()})
    return given


def _signs(random, shape, k):
    """1, -1, and so many zeros that of k products about ``TERMS`` are none."""
    kept = random.random(shape) < (TERMS / float(k)) ** 0.5
    return (kept * random.choice([-1, 1], size=shape)).astype("f")


def expect(given):
    whole = given["whole_a"].astype("d") @ given["whole_b"].astype("d")
    return {"c": product(given["a"], given["b"], TENSOR_UNIT, "f", BFLOAT16_UNIT), "whole": exact(whole.astype("f"))}


def run(gpu, given):
    return {
        "c": _multiplied(gpu, given["a"], given["b"]),
        "whole": _multiplied(gpu, given["whole_a"], given["whole_b"]),
    }


def _multiplied(gpu, a, b):
    import ml_dtypes

    kind = np.dtype(ml_dtypes.bfloat16)
    c = gpu.up(a.astype(kind)) @ gpu.up(b.astype(kind))
    if c.dtype != kind:
        raise TypeError("the product of two bfloat16 arrays has type %s" % c.dtype)
    return gpu.down(c.astype("f"))


def memory(size):
    return product_memory(size, 8)
