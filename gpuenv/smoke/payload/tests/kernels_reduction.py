"""Reductions: whole numbers exactly, floating point within the bound of the longest sum."""

import numpy as np

from gpuenv.smoke.payload.answers import UNIT, exact, gamma, near

TITLE = "reductions over all and over one axis, and a reduction kernel"
LEVELS = {"normal": {"n": 1003}, "deep": {"n": 6007}}
HOST = 1.5  # few answers
TOLERANCE = "integers exactly; a sum of k terms in any order: gamma(k) times the sum of the absolute values"
SHRINKS = "n"


def inputs(random, size):
    n = size["n"]
    return {
        "whole": random.integers(-1000, 1000, size=(n, n + 3), dtype=np.int64),
        "x": random.uniform(0.5, 1.5, size=(n, n + 3)),
    }


def expect(given):
    whole, x = given["whole"], given["x"]
    bound = gamma(x.size, UNIT["d"]) * np.abs(x).sum()
    rows = gamma(x.shape[1], UNIT["d"]) * np.abs(x).sum(axis=1)
    squares = gamma(x.size + 2, UNIT["d"]) * float((x * x).sum())
    return {
        "sum": exact(whole.sum()),
        "by_column": exact(whole.sum(axis=0)),
        "largest": exact(whole.max(axis=1)),
        "where": exact(np.array(int(x.argmax()))),
        "real": near(x.sum(dtype=np.longdouble).astype("d"), bound, "d"),
        "real_by_row": near(x.sum(axis=1), rows, "d"),
        "squares": near((x * x).sum(), squares, "d"),
    }


def run(gpu, given):
    whole, x = gpu.up(given["whole"]), gpu.up(given["x"])
    squares = gpu.cp.ReductionKernel("float64 x", "float64 y", "x * x", "a + b", "y = a", "0", "gpuenv_squares")
    return {
        "sum": gpu.down(whole.sum()),
        "by_column": gpu.down(whole.sum(axis=0)),
        "largest": gpu.down(whole.max(axis=1)),
        "where": gpu.down(x.argmax()),
        "real": gpu.down(x.sum()),
        "real_by_row": gpu.down(x.sum(axis=1)),
        "squares": gpu.down(squares(x)),
    }


def memory(size):
    return size["n"] ** 2 * 8 * 6
