"""Products with vectors: matrix times vector, dot, vdot, outer."""

import numpy as np

from gpuenv.smoke.payload.answers import UNIT, gamma, near
from gpuenv.smoke.payload.common.matrix import product

TITLE = "products with vectors"
LEVELS = {"normal": {"n": 1500}, "deep": {"n": 6000}}
TOLERANCE = "gamma(2 k) |A| |x| on either side, in double precision; an outer product rounds once"
SHRINKS = "n"


def inputs(random, size):
    n = size["n"]
    return {
        "a": random.standard_normal((n, n + 5)),
        "x": random.standard_normal(n + 5),
        "y": random.standard_normal(n),
        "z": random.standard_normal(n) + 1j * random.standard_normal(n),
    }


def expect(given):
    a, x, y, z = (given[name] for name in "axyz")
    column, row = product(a, x[:, None], UNIT["d"], "d"), product(y[None], a, UNIT["d"], "d")
    return {
        "column": near(column.value[:, 0], 2 * column.bound[:, 0], "d"),
        "row": near(row.value[0], 2 * row.bound[0], "d"),
        "dot": near(np.array(x @ x), 4 * gamma(x.size, UNIT["d"]) * float(x @ x), "d"),
        "vdot": near(np.array(np.vdot(z, y)), 8 * gamma(2 * y.size, UNIT["d"]) * float(np.abs(z) @ np.abs(y)), "D"),
        "outer": near(np.outer(y, x[:7]), 2 * UNIT["d"] * np.abs(np.outer(y, x[:7])), "d"),
    }


def run(gpu, given):
    cp = gpu.cp
    a, x, y, z = (gpu.up(given[name]) for name in "axyz")
    return {
        "column": gpu.down(a @ x),
        "row": gpu.down(y @ a),
        "dot": gpu.down(cp.dot(x, x)),
        "vdot": gpu.down(cp.vdot(z, y.astype(complex))),
        "outer": gpu.down(cp.outer(y, x[:7])),
    }


def memory(size):
    return size["n"] ** 2 * 8 * 3
