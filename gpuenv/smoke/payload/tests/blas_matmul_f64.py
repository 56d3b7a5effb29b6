"""The matrix product in double precision."""

from gpuenv.smoke.payload.answers import UNIT
from gpuenv.smoke.payload.common.matrix import product, product_memory, random_matrices

TITLE = "matrix product in double precision"
LEVELS = {"normal": {"n": 512}, "deep": {"n": 1536}}
TOLERANCE = "gamma(2 k) |A| |B| on either side: NumPy's own product rounds too"
SHRINKS = "n"
EXACT_REPEAT = True


def inputs(random, size):
    return random_matrices(random, size, "d")


def expect(given):
    answer = product(given["a"], given["b"], UNIT["d"], "d")
    return {"c": answer._replace(bound=2 * answer.bound)}


def run(gpu, given):
    return {"c": gpu.down(gpu.up(given["a"]) @ gpu.up(given["b"]))}


def memory(size):
    return product_memory(size, 8)
