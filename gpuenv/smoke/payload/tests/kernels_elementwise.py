"""An element-wise kernel that CuPy generates, in whole numbers and in double precision."""

import numpy as np

from gpuenv.smoke.payload.answers import UNIT, exact, near

TITLE = "element-wise kernels"
LEVELS = {"normal": {"n": 1000003}, "deep": {"n": 20000003}}
TOLERANCE = "integers exactly; one product and one sum round twice, or once where they are fused: 2 u (|ax| + |y|)"
EXACT_REPEAT = True


def inputs(random, size):
    n = size["n"]
    whole = random.integers(-(2**31), 2**31, size=(2, n), dtype=np.int64)
    return {"i": whole[0], "j": whole[1], "x": random.standard_normal(n), "y": random.standard_normal(n), "a": 1.75}


def expect(given):
    i, j, x, y, a = (given[name] for name in ("i", "j", "x", "y", "a"))
    bound = 2 * UNIT["d"] * (np.abs(a * x) + np.abs(y)) * 1.01
    return {"whole": exact((i * 3 + j) ^ (i >> 5)), "axpy": near(a * x + y, bound, "d")}


def run(gpu, given):
    # Not i: CuPy keeps that name for the number of the element.
    whole = gpu.cp.ElementwiseKernel("int64 p, int64 q", "int64 z", "z = (p * 3 + q) ^ (p >> 5)", "gpuenv_whole")
    x, y = gpu.up(given["x"]), gpu.up(given["y"])
    return {
        "whole": gpu.down(whole(gpu.up(given["i"]), gpu.up(given["j"]))),
        "axpy": gpu.down(given["a"] * x + y),
    }


def memory(size):
    return size["n"] * 8 * 10


SHRINKS = "n"
