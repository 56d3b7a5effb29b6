"""Whole numbers wrap around: sums, products, shifts, division and remainder as NumPy has them."""

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.common.types import name

TITLE = "integer overflow, division and remainder"
LEVELS = {"normal": {"n": 5003}}
TOLERANCE = "exact: whole numbers"
WHOLE = "bBhHiIqQ"


def inputs(random, size):
    given = {}
    for code in WHOLE:
        info = np.iinfo(code)
        given[code] = random.integers(info.min, info.max, size=(2, size["n"]), dtype=np.dtype(code), endpoint=True)
        # Neither a division by zero nor the one quotient that the type lacks (the least number over -1).
        given[code][1][(given[code][1] == 0) | (given[code][1] == np.array(-1).astype(code))] = 3
    return given


def _work(x, y):
    return {"sum": x + y, "product": x * y, "quotient": x // y, "remainder": x % y, "bits": (x & y) ^ (x | y)}


def expect(given):
    answers = {}
    with np.errstate(over="ignore"):
        for code, (x, y) in given.items():
            for key, value in _work(x, y).items():
                answers["%s_%s" % (name(code), key)] = exact(value)
    return answers


def run(gpu, given):
    got = {}
    for code, (x, y) in given.items():
        for key, value in _work(gpu.up(x), gpu.up(y)).items():
            got["%s_%s" % (name(code), key)] = gpu.down(value)
    return got
