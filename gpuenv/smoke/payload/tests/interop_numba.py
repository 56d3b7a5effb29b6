"""A numba kernel works on an array of CuPy's."""

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.common import stranger
from gpuenv.smoke.payload.gpu import Skip

TITLE = "with numba"
LEVELS = {"normal": {"n": 50021}}
NEEDS = ["module:numba"]
TOLERANCE = "exact: whole numbers"
SECONDS = {"normal": 120}
BY_ITSELF = """
import numpy
from numba import cuda

@cuda.jit
def double(x):
    place = cuda.grid(1)
    if place < x.size:
        x[place] = x[place] * 2 + 5

double[1, 32](cuda.to_device(numpy.arange(8)))
cuda.synchronize()
"""


def inputs(random, size):
    return {"x": random.integers(-(2**40), 2**40, size=size["n"], dtype=np.int64)}


def expect(given):
    return {"x": exact(given["x"] * 2 + 5)}


def run(gpu, given):
    return stranger.together("numba", BY_ITSELF, gpu.is_shared, lambda: _together(gpu, given))


def _together(gpu, given):
    try:
        from numba import cuda
    except ImportError as error:
        raise Skip("numba has no CUDA here: %s" % error) from error
    if not cuda.is_available():
        raise Skip("numba finds no CUDA driver or toolkit here")

    @cuda.jit
    def double(x):
        place = cuda.grid(1)
        if place < x.size:
            x[place] = x[place] * 2 + 5

    x = gpu.up(given["x"])
    gpu.cp.cuda.Device().synchronize()
    double[(x.size + 127) // 128, 128](cuda.as_cuda_array(x))
    cuda.synchronize()
    return {"x": gpu.down(x)}
