"""A grid that is smaller than the array, each thread taking several elements."""

import numpy as np

from gpuenv.smoke.payload.answers import exact

TITLE = "a grid-stride loop over more than one launch covers"
LEVELS = {"normal": {"n": 3000017}, "deep": {"n": 200000033}}
TOLERANCE = "exact: whole numbers"
SHRINKS = "n"
EXACT_REPEAT = True
SOURCE = r"""
extern "C" __global__ void gpuenv_stride(const int *x, int *y, long long n) {
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockDim.x * blockIdx.x + threadIdx.x; i < n; i += step) {
        y[i] = x[i] * 5 - (int)(i % 1000);
    }
}
"""
KERNELS = {"gpuenv_stride": SOURCE}


def inputs(random, size):
    return {"x": random.integers(-(2**20), 2**20, size=size["n"], dtype=np.int32)}


def expect(given):
    x = given["x"]
    return {"y": exact(x * 5 - (np.arange(x.size) % 1000).astype(np.int32))}


def run(gpu, given):
    x = gpu.up(given["x"])
    y = gpu.cp.full(x.size, -1, dtype=np.int32)
    gpu.compile(SOURCE, "gpuenv_stride")((64,), (256,), (x, y, np.int64(x.size)))
    return {"y": gpu.down(y)}


def memory(size):
    return size["n"] * 12
