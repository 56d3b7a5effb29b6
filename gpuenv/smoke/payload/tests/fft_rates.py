"""The rate of a large batch of transforms, beside NumPy on this host."""

import time

import numpy as np

from gpuenv.smoke.payload.common.spectrum import random_signal, transform

TITLE = "the rate of transforms"
# So large that a transform takes the GPU longer than the host, which needs tens of microseconds to ask for the next:
# 256 MiB, read and written, take 0.1 ms at 4.8 TB/s.
LEVELS = {"normal": {"batch": 2048, "n": 16384}, "deep": {"batch": 2048, "n": 65536}}
HOST = 0.1  # eight rows
TOLERANCE = "16 log2(n) u sqrt(n) |x|_2 for each element of the last transform, in single precision"
ALONE = ["normal", "deep"]
SHRINKS = "batch"


def inputs(random, size):
    few = random_signal(random, (8, size["n"]), np.complex64)
    return {"few": few, "batch": size["batch"]}


def expect(given):
    return {"last": transform(given["few"][-1:], (1,), "F")}


def run(gpu, given):
    few, batch = given["few"], given["batch"]
    n, copies = few.shape[1], max(batch // few.shape[0], 1)
    # Not what tile gives, which is a view: CuPy copies a view before each transform.
    x = gpu.cp.tile(gpu.up(few), (copies, 1)).copy()
    took = gpu.steady(lambda: gpu.cp.fft.fft(x, axis=1))
    gpu.rate("fft_c64", 5.0 * n * np.log2(n) * x.shape[0], x.nbytes, took, "FLOP/s")
    started = time.perf_counter()
    np.fft.fft(few, axis=1)
    gpu.measure("numpy_fft", 5.0 * n * np.log2(n) * few.shape[0] / (time.perf_counter() - started), "FLOP/s")
    return {"last": gpu.down(gpu.cp.fft.fft(x, axis=1)[-1:])}


def memory(size):
    return size["batch"] * size["n"] * 8 * 5
