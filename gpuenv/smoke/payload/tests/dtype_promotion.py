"""The type and the value of each operation between two types, as NumPy has them."""

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.common.types import name, small_numbers

TITLE = "promotion of types, per operation"
# Each pair is a kernel that CuPy compiles when its cache is cold: a quarter of a second each.
LEVELS = {
    "quick": {"codes": "iqfd", "operations": ["add"]},
    "normal": {"codes": "?bBiqQefdD", "operations": ["add", "multiply"]},
    "deep": {"codes": "?bBhHiIqQefdFD", "operations": ["add", "multiply", "maximum"]},
}
SECONDS = {"normal": 120, "deep": 900}
TOLERANCE = "exact: small whole numbers in every type, whose sums and products every type holds"
N = 11


def inputs(random, size):
    codes = size["codes"]
    return {
        "left": {code: small_numbers(random, code, N) for code in codes},
        "right": {code: small_numbers(random, code, N) for code in codes},
        "operations": size["operations"],
    }


def _pairs(given):
    for operation in given["operations"]:
        codes = list(given["left"])
        for number, first in enumerate(codes):
            for second in codes[number:]:
                yield "%s_%s_%s" % (operation, name(first), name(second)), operation, first, second


def expect(given):
    return {
        key: exact(getattr(np, operation)(given["left"][first], given["right"][second]))
        for key, operation, first, second in _pairs(given)
    }


def run(gpu, given):
    cp = gpu.cp
    left = {code: gpu.up(x) for code, x in given["left"].items()}
    right = {code: gpu.up(x) for code, x in given["right"].items()}
    return {
        key: gpu.down(getattr(cp, operation)(left[first], right[second]))
        for key, operation, first, second in _pairs(given)
    }
