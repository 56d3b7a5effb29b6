"""Casts between every two types where the number is in both."""

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.common.types import name, small_numbers

TITLE = "casts between every two types"
# Each pair is a kernel that CuPy compiles when its cache is cold.
LEVELS = {"normal": {"n": 9, "codes": "?biqQefdD"}, "deep": {"n": 9, "codes": "?bBhHiIqQefdFD"}}
SECONDS = {"normal": 120, "deep": 600}
TOLERANCE = "exact: numbers that both types hold; whole numbers that are cut down wrap around as NumPy's do"
WHOLE = "bBhHiIqQ"


def inputs(random, size):
    given = {code: small_numbers(random, code, size["n"]) for code in size["codes"]}
    given["wide"] = random.integers(-(2**62), 2**62, size=size["n"] * 20, dtype=np.int64)
    return given


def _pairs(given):
    codes = [code for code in given if code != "wide"]
    # From complex to real drops a part, which both warn of.
    return [(a, b) for a in codes for b in codes if a != b and (a not in "FD" or b in "FD")]


def expect(given):
    answers = {"%s_to_%s" % (name(a), name(b)): exact(given[a].astype(b)) for a, b in _pairs(given)}
    answers.update({"cut_to_" + name(code): exact(given["wide"].astype(code)) for code in WHOLE})
    return answers


def run(gpu, given):
    there = {code: gpu.up(x) for code, x in given.items()}
    got = {"%s_to_%s" % (name(a), name(b)): gpu.down(there[a].astype(b)) for a, b in _pairs(given)}
    got.update({"cut_to_" + name(code): gpu.down(there["wide"].astype(code)) for code in WHOLE})
    return got
