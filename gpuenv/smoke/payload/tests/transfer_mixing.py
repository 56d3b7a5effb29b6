"""Host and device arrays do not mix: the documented errors are raised, and explicit transfers work."""

import numpy as np

from gpuenv.smoke.payload.answers import exact

TITLE = "mixing host and device arrays raises TypeError"
LEVELS = {"normal": {"n": 1009}}
TOLERANCE = "exact: 1 for each attempt that raised TypeError, and whole numbers"
# The setting of CuPy (Environment variables) under which the conversion is allowed.
ENVIRONMENT = {"CUPY_ENABLE_UMP": "0"}


def inputs(random, size):
    whole = random.integers(-1000, 1000, size=(2, size["n"]), dtype=np.int64)
    return {"x": whole[0], "y": whole[1]}


def expect(given):
    return {"raised": exact(np.array([1, 1, 1])), "sum": exact(given["x"] + given["y"])}


def run(gpu, given):
    host, there = given["y"], gpu.up(given["x"])
    attempts = (lambda: there + host, lambda: np.asarray(there), lambda: gpu.cp.add(there, host))
    return {
        "raised": np.array([_raises(attempt) for attempt in attempts]),
        "sum": gpu.down(there + gpu.up(host)),
    }


def _raises(attempt):
    try:
        attempt()
    except TypeError:
        return 1
    return 0
