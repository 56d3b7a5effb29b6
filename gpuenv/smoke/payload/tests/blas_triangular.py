"""Triangular systems, lower and upper, for several right-hand sides."""

import numpy as np

from gpuenv.smoke.payload.answers import UNIT, gamma, near

TITLE = "triangular systems"
LEVELS = {"normal": {"n": 256}, "deep": {"n": 1024}}
NEEDS = ["module:scipy"]  # cupyx.scipy.linalg takes parts of it over
TOLERANCE = (
    "the right-hand side is made from a known solution; substitution errs by cond(T) gamma(n), and T, with rows that"
    " sum to less than half its diagonal, has a condition number below 4: 16 gamma(n) max|x|"
)
SHRINKS = "n"


def inputs(random, size):
    n = size["n"]
    full = random.uniform(-0.5 / n, 0.5 / n, size=(n, n)) + np.eye(n)
    return {"lower": np.tril(full), "upper": np.triu(full), "x": random.standard_normal((n, 9))}


def expect(given):
    x = given["x"]
    bound = 16 * gamma(x.shape[0], UNIT["d"]) * float(np.abs(x).max())
    return {"lower": near(x, bound, "d"), "upper": near(x, bound, "d"), "transposed": near(x, bound, "d")}


def run(gpu, given):
    from cupyx.scipy.linalg import solve_triangular

    lower, upper = gpu.up(given["lower"]), gpu.up(given["upper"])
    x = given["x"]
    sides = {
        "lower": gpu.up(given["lower"] @ x),
        "upper": gpu.up(given["upper"] @ x),
        "transposed": gpu.up(given["lower"].T @ x),
    }
    return {
        "lower": gpu.down(solve_triangular(lower, sides["lower"], lower=True)),
        "upper": gpu.down(solve_triangular(upper, sides["upper"])),
        "transposed": gpu.down(solve_triangular(lower, sides["transposed"], trans=1, lower=True)),
    }


def memory(size):
    return size["n"] ** 2 * 8 * 8
