"""A fused function: several operations and a reduction in one kernel."""

import numpy as np

from gpuenv.smoke.payload.answers import UNIT, exact, gamma, near

TITLE = "fused kernels"
LEVELS = {"normal": {"n": 500009}, "deep": {"n": 10000019}}
TOLERANCE = (
    "integers exactly; three operations round three times: gamma(3) (|xy| + |x| + |y|); a sum of k: gamma(k + 3)"
)
SHRINKS = "n"


def inputs(random, size):
    n = size["n"]
    whole = random.integers(-1000, 1000, size=(2, n), dtype=np.int64)
    return {"i": whole[0], "j": whole[1], "x": random.uniform(1, 2, n), "y": random.uniform(0.1, 0.9, n)}


def expect(given):
    i, j, x, y = (given[name] for name in ("i", "j", "x", "y"))
    spread = np.abs(x * y) + np.abs(x) + np.abs(y)
    return {
        "whole": exact(i * j + i - j),
        "real": near(x * y + x - y, gamma(3, UNIT["d"]) * spread, "d"),
        "sum": near((x * y + x - y).sum(), gamma(x.size + 3, UNIT["d"]) * float(spread.sum()), "d"),
    }


def run(gpu, given):
    cp = gpu.cp

    def formula(x, y):
        return x * y + x - y

    def total(x, y):
        return cp.sum(x * y + x - y)

    fused, summed = cp.fuse(formula), cp.fuse(total)
    x, y = gpu.up(given["x"]), gpu.up(given["y"])
    return {
        "whole": gpu.down(fused(gpu.up(given["i"]), gpu.up(given["j"]))),
        "real": gpu.down(fused(x, y)),
        "sum": gpu.down(summed(x, y)),
    }


def memory(size):
    return size["n"] * 8 * 10
