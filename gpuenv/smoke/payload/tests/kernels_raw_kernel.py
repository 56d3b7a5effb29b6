"""A kernel of one's own in CUDA C++: it adds and shifts whole numbers, so that every bit is known."""

import numpy as np

from gpuenv.smoke.payload.answers import exact

TITLE = "a raw kernel"
LEVELS = {"quick": {"n": 100003}, "normal": {"n": 1000003}}
TOLERANCE = "exact: whole numbers"
EXACT_REPEAT = True
SOURCE = r"""
extern "C" __global__ void gpuenv_mix(const long long *x, const long long *y, long long *z, long long n) {
    long long i = (long long)blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        z[i] = (x[i] << 1) - y[i] + i;
    }
}
"""
KERNELS = {"gpuenv_mix": SOURCE}


def inputs(random, size):
    whole = random.integers(-(2**40), 2**40, size=(2, size["n"]), dtype=np.int64)
    return {"x": whole[0], "y": whole[1]}


def expect(given):
    x, y = given["x"], given["y"]
    return {"z": exact((x << 1) - y + np.arange(x.size, dtype=np.int64))}


def run(gpu, given):
    x, y = gpu.up(given["x"]), gpu.up(given["y"])
    z = gpu.cp.full(x.size, -1, dtype=np.int64)
    kernel = gpu.compile(SOURCE, "gpuenv_mix")
    kernel(((x.size + 255) // 256,), (256,), (x, y, z, np.int64(x.size)))
    return {"z": gpu.down(z)}
