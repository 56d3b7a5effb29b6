"""Complex transforms in one dimension: powers of two, primes, products of both."""

import numpy as np

from gpuenv.smoke.payload.common.spectrum import random_signal, transform

TITLE = "complex transforms in one dimension"
LEVELS = {
    "quick": {"lengths": [4096]},
    "normal": {"lengths": [2, 4096, 65536, 4099, 6000, 100003]},
    "deep": {"lengths": [2, 4096, 1048576, 4099, 6000, 1000003, 16777216]},
}
HOST = 1.5  # the memory of the GPU is mostly that of plans
TOLERANCE = "16 log2(n) u sqrt(n) |x|_2 for each element"
EXACT_REPEAT = True


def inputs(random, size):
    return {str(n): random_signal(random, (n,), np.complex128) for n in size["lengths"]}


def expect(given):
    double = {"double_" + n: transform(x, (0,), "D") for n, x in given.items()}
    single = {"single_" + n: transform(x.astype(np.complex64), (0,), "F") for n, x in given.items()}
    return dict(double, **single)


def run(gpu, given):
    got = {}
    for n, x in given.items():
        got["double_" + n] = gpu.down(gpu.cp.fft.fft(gpu.up(x)))
        got["single_" + n] = gpu.down(gpu.cp.fft.fft(gpu.up(x.astype(np.complex64))))
    return got


def memory(size):
    return max(size["lengths"]) * 16 * 12
