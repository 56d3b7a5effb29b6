"""Every type there, copied on the GPU, and back: bit for bit."""

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.common.types import name

TITLE = "every type both ways"
LEVELS = {"quick": {"n": 10007}, "normal": {"n": 200003}, "deep": {"n": 5000011}}
TOLERANCE = "exact: the bytes, NaN with its payload"
SHRINKS = "n"
TYPES = "?bBhHiIqQefdFD"


def inputs(random, size):
    given = {}
    for code in TYPES:
        kind = np.dtype(code)
        raw = random.integers(0, 256, size=size["n"] * kind.itemsize, dtype=np.uint8)
        given[code] = (raw & 1).view(kind) if code == "?" else raw.view(kind)
    return given


def expect(given):
    return {"type_" + name(code): exact(x.view(np.uint8)) for code, x in given.items()}


def run(gpu, given):
    got = {}
    for code, x in given.items():
        back = gpu.down(gpu.up(x).copy())
        if back.dtype != np.dtype(code):
            raise TypeError("%s came back as %s" % (name(code), back.dtype))
        got["type_" + name(code)] = back.view(np.uint8)
    return got


def memory(size):
    return size["n"] * 16 * 4
