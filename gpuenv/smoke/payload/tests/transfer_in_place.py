"""Operations in place change the array itself: no new memory, no copy to the host."""

import numpy as np

from gpuenv.smoke.payload.answers import exact

TITLE = "operations in place"
LEVELS = {"normal": {"n": 200003}}
TOLERANCE = "exact: whole numbers; 1 where the place in memory is the same"


def inputs(random, size):
    return {"x": random.integers(-(2**40), 2**40, size=size["n"], dtype=np.int64)}


def expect(given):
    x = (given["x"] + 7) * 3
    x[::2] -= 1
    return {"x": exact(x), "view": exact(x[10:5000:7].copy()), "same_place": exact(np.array([1]))}


def run(gpu, given):
    x = gpu.up(given["x"])
    place, view = x.data.ptr, x[10:5000:7]
    x += 7
    x *= 3
    x[::2] -= 1
    return {"x": gpu.down(x), "view": gpu.down(view), "same_place": np.array([int(x.data.ptr == place)])}
