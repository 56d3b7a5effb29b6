"""The matrix product in single precision, with TF32 switched off."""

from gpuenv.smoke.payload.answers import UNIT
from gpuenv.smoke.payload.common.matrix import NO_TF32, product, product_memory, random_matrices

TITLE = "matrix product in single precision"
LEVELS = {"quick": {"n": 256}, "normal": {"n": 512}, "deep": {"n": 2048}}
TOLERANCE = (
    "gamma(2 k) |A| |B| with the unit of single precision: any order of the sum, with or without fused operations"
)
ENVIRONMENT = NO_TF32
SHRINKS = "n"
EXACT_REPEAT = True


def inputs(random, size):
    return random_matrices(random, size, "f")


def expect(given):
    return {"c": product(given["a"], given["b"], UNIT["f"], "f")}


def run(gpu, given):
    return {"c": gpu.down(gpu.up(given["a"]) @ gpu.up(given["b"]))}


def memory(size):
    return product_memory(size, 4)
