"""Each GPU by itself within one process: its own memory, its own kernel, its own answer."""

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.tests.kernels_raw_kernel import KERNELS as MIX
from gpuenv.smoke.payload.tests.kernels_raw_kernel import SOURCE

TITLE = "each GPU of several in one process"
LEVELS = {"quick": {"n": 20011}, "normal": {"n": 500009}}
NEEDS = ["gpus:2"]
TOLERANCE = "exact: whole numbers"
KERNELS = MIX
MOST = 16
HOST = 16  # all rows, and few at a time on a GPU


def inputs(random, size):
    return {"x": random.integers(-(2**40), 2**40, size=(MOST, size["n"]), dtype=np.int64)}


def expect(given):
    x = given["x"]
    return {"z": exact((x << 1) - x[::-1] + np.arange(x.shape[1], dtype=np.int64))}


def run(gpu, given):
    cp, x = gpu.cp, given["x"]
    count, n, rows = gpu.runtime.getDeviceCount(), x.shape[1], []
    for number in range(max(MOST, count)):
        with cp.cuda.Device(number % count):
            first, second = gpu.up(x[number % MOST]), gpu.up(x[MOST - 1 - number % MOST])
            z = cp.full(n, -1, dtype=np.int64)
            gpu.compile(SOURCE, "gpuenv_mix")(((n + 255) // 256,), (256,), (first, second, z, np.int64(n)))
            if z.device.id != number % count:
                raise ValueError("the array is on device %d, not on %d" % (z.device.id, number % count))
            rows.append(gpu.down(z))
    gpu.measure("devices", count, "1")
    return {"z": np.stack(rows[:MOST])}


def memory(size):
    return size["n"] * 8 * 4
