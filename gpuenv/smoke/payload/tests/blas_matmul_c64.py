"""The matrix product of complex numbers in single precision."""

import numpy as np

from gpuenv.smoke.payload.answers import UNIT
from gpuenv.smoke.payload.common.matrix import NO_TF32, product, product_memory, random_matrices

TITLE = "matrix product of complex numbers"
LEVELS = {"normal": {"n": 384}, "deep": {"n": 1024}}
TOLERANCE = "a complex product is four real ones: gamma(4 k) |A| |B|, with a factor of sqrt(2) for the two parts"
ENVIRONMENT = NO_TF32
SHRINKS = "n"


def inputs(random, size):
    real, imaginary = random_matrices(random, size, "f"), random_matrices(random, size, "f")
    return {name: (real[name] + 1j * imaginary[name]).astype(np.complex64) for name in real}


def expect(given):
    answer = product(given["a"], given["b"], UNIT["f"], "F")
    return {"c": answer._replace(bound=1.5 * answer.bound)}


def run(gpu, given):
    return {"c": gpu.down(gpu.up(given["a"]) @ gpu.up(given["b"]))}


def memory(size):
    return product_memory(size, 8)
