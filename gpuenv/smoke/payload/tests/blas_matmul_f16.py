"""The matrix product in half precision, summed in single precision."""

from gpuenv.smoke.payload.answers import UNIT
from gpuenv.smoke.payload.common.matrix import TENSOR_UNIT, product, product_memory, random_matrices

TITLE = "matrix product in half precision"
LEVELS = {"normal": {"n": 512}, "deep": {"n": 2048}}
TOLERANCE = (
    "sums in single precision, cut off by tensor cores: gamma(2 k) |A| |B|; and two roundings to half precision of what"
    " they are summed from"
)
SHRINKS = "n"


def inputs(random, size):
    return random_matrices(random, size, "e")


def expect(given):
    return {"c": product(given["a"], given["b"], TENSOR_UNIT, "e", UNIT["e"], 2.0**-25)}


def run(gpu, given):
    return {"c": gpu.down(gpu.up(given["a"]) @ gpu.up(given["b"]))}


def memory(size):
    return product_memory(size, 4)
