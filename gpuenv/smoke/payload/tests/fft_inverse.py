"""The inverse transform gives the input back, and the plan cache serves the same plan again."""

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.common.spectrum import back, random_signal, transform

TITLE = "the inverse gives the input; the plan cache"
LEVELS = {"normal": {"n": 12000}, "deep": {"n": 2000000}}
TOLERANCE = "twice 16 log2(n) u |x|_2 for each element; the number of plans exactly"
SHRINKS = "n"


def inputs(random, size):
    return {"x": random_signal(random, (size["n"],), np.complex128)}


def expect(given):
    x = given["x"]
    return {
        "spectrum": transform(x, (0,), "D"),
        "again": transform(x, (0,), "D"),
        "back": back(x, (0,), "D"),
        # None, then one that the second transform and the inverse use as well; none once it is cleared.
        "plans": exact(np.array([0, 1, 1, 1, 0])),
    }


def run(gpu, given):
    fft = gpu.cp.fft
    cache = fft.config.get_plan_cache()
    cache.clear()
    cache.set_size(8)
    x, plans = gpu.up(given["x"]), [cache.get_curr_size()]
    spectrum = fft.fft(x)
    plans.append(cache.get_curr_size())
    again = fft.fft(x)
    plans.append(cache.get_curr_size())
    got = {"spectrum": gpu.down(spectrum), "again": gpu.down(again), "back": gpu.down(fft.ifft(spectrum))}
    plans.append(cache.get_curr_size())
    cache.clear()
    plans.append(cache.get_curr_size())
    got["plans"] = np.array(plans)
    return got


def memory(size):
    return size["n"] * 16 * 10
