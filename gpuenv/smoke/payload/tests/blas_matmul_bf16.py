"""The matrix product in bfloat16, which CuPy has from 14 on, by way of ml_dtypes."""

from __future__ import annotations

import numpy as np

from gpuenv.smoke.payload.common.matrix import BFLOAT16_UNIT, TENSOR_UNIT, product, product_memory

GROUP = "blas"
TITLE = "matrix product in bfloat16"
LEVELS = {"normal": {"n": 512}, "deep": {"n": 2048}}
NEEDS = ["module:ml_dtypes", "cupy:14", "capability:8.0"]
TOLERANCE = "sums in single precision, cut off by tensor cores: gamma(2 k) |A| |B|; then one rounding to bfloat16"
SHRINKS = "n"


def inputs(random, size):
    n = size["n"]
    # Eighths up to 8 have seven significant bits: bfloat16 holds them exactly.
    a, b = random.integers(-63, 64, size=(n, n + 8)), random.integers(-63, 64, size=(n + 8, n + 16))
    return {"a": (a / 8.0).astype("f"), "b": (b / 8.0).astype("f")}


def expect(given):
    return {"c": product(given["a"], given["b"], TENSOR_UNIT, "f", BFLOAT16_UNIT)}


def run(gpu, given):
    import ml_dtypes

    kind = np.dtype(ml_dtypes.bfloat16)
    product = gpu.up(given["a"].astype(kind)) @ gpu.up(given["b"].astype(kind))
    if product.dtype != kind:
        raise TypeError("the product of two bfloat16 arrays has type %s" % product.dtype)
    return {"c": gpu.down(product.astype("f"))}


def memory(size):
    return product_memory(size, 8)
