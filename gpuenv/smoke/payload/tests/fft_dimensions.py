"""Complex transforms in two and three dimensions, and batches of them."""

import numpy as np

from gpuenv.smoke.payload.common.spectrum import random_signal, transform

TITLE = "transforms in two and three dimensions, batched"
LEVELS = {"normal": {"scale": 1}, "deep": {"scale": 4}}
TOLERANCE = "16 log2(n) u sqrt(n) |x|_2 for each element, n being all points of one transform"
EXACT_REPEAT = True
CASES = {
    "plane": ((96, 130), (0, 1)),
    "space": ((24, 30, 28), (0, 1, 2)),
    "rows": ((37, 256), (1,)),
    "columns": ((256, 37), (0,)),
    "planes": ((5, 48, 36), (1, 2)),
}


def inputs(random, size):
    scale = size["scale"]
    return {
        name: random_signal(random, (shape[0] * scale,) + shape[1:], np.complex128)
        for name, (shape, _) in CASES.items()
    }


def expect(given):
    return {name: transform(x, CASES[name][1], "D") for name, x in given.items()}


def run(gpu, given):
    return {name: gpu.down(gpu.cp.fft.fftn(gpu.up(x), axes=CASES[name][1])) for name, x in given.items()}
