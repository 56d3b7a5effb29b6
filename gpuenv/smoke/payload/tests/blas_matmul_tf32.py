"""The matrix product in single precision with TF32: operands lose 13 bits, sums do not."""

import numpy as np

from gpuenv.smoke.payload.answers import near
from gpuenv.smoke.payload.common.matrix import TENSOR_UNIT, TF32_UNIT, product, product_memory, random_matrices

TITLE = "matrix product with TF32"
LEVELS = {"normal": {"n": 512}, "deep": {"n": 2048}}
NEEDS = ["capability:8.0"]
TOLERANCE = "each operand keeps 11 bits, which may be cut off: 2 * 2**-10 |A| |B|, and the sums in single precision"
ENVIRONMENT = {"CUPY_TF32": "1"}
SHRINKS = "n"


def inputs(random, size):
    return random_matrices(random, size, "f")


def expect(given):
    a, b = given["a"], given["b"]
    exact = product(a, b, TENSOR_UNIT, "f")
    spread = np.abs(a).astype("d") @ np.abs(b).astype("d")
    return {"c": near(exact.value, exact.bound + 2.02 * (2 * TF32_UNIT) * spread, "f")}


def run(gpu, given):
    return {"c": gpu.down(gpu.up(given["a"]) @ gpu.up(given["b"]))}


def memory(size):
    return product_memory(size, 4)
