"""Transforms of real signals, and back to real ones."""

import numpy as np

from gpuenv.smoke.payload.answers import UNIT, near
from gpuenv.smoke.payload.common.spectrum import back, transform_bound

TITLE = "real to complex and back"
LEVELS = {"normal": {"lengths": [1024, 1009, 30000]}, "deep": {"lengths": [1024, 1009, 30000, 4194304]}}
HOST = 1.5  # as fft.complex
TOLERANCE = "16 log2(n) u sqrt(n) |x|_2 for each element; forth and back twice that over sqrt(n)"


def inputs(random, size):
    return {str(n): random.standard_normal((3, n)) for n in size["lengths"]}


def expect(given):
    answers = {}
    for n, x in given.items():
        value = np.fft.rfft(x, axis=1)
        bound = np.broadcast_to(1.1 * transform_bound(x, (1,), UNIT["d"]), value.shape)
        answers["spectrum_" + n] = near(value, bound, "D")
        answers["back_" + n] = back(x, (1,), "d")
        answers["plane_" + n] = back(x, (0, 1), "d")
    return answers


def run(gpu, given):
    fft, got = gpu.cp.fft, {}
    for n, x in given.items():
        there = gpu.up(x)
        spectrum = fft.rfft(there, axis=1)
        got["spectrum_" + n] = gpu.down(spectrum)
        got["back_" + n] = gpu.down(fft.irfft(spectrum, n=x.shape[1], axis=1))
        got["plane_" + n] = gpu.down(fft.irfft2(fft.rfft2(there), s=x.shape))
    return got


def memory(size):
    return max(size["lengths"]) * 8 * 3 * 12
