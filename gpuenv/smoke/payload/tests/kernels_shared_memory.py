"""Dynamic shared memory at the most that a block may have: filled by all threads, read in reverse."""

import numpy as np

from gpuenv.smoke.payload.answers import exact

TITLE = "shared memory at its maximum"
LEVELS = {"normal": {"words": 4096}}
TOLERANCE = "exact: whole numbers"
OPT_IN = 97  # cudaDevAttrMaxSharedMemoryPerBlockOptin (driver_types.h)
SOURCE = r"""
extern "C" __global__ void gpuenv_reverse(const int *x, int *y, int words, int n) {
    extern __shared__ int block[];
    for (int i = threadIdx.x; i < words; i += blockDim.x) {
        block[i] = x[i % n] + i;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        y[i] = block[words - 1 - i] - (words - 1 - i);
    }
}
"""
KERNELS = {"gpuenv_reverse": SOURCE}


def inputs(random, size):
    return {"x": random.integers(-(2**30), 2**30, size=size["words"], dtype=np.int32)}


def expect(given):
    # The block's size is a multiple of the array's: element words - 1 - i of the block is element n - 1 - i of x.
    return {"y": exact(given["x"][::-1].copy())}


def run(gpu, given):
    cp, n = gpu.cp, given["x"].size
    most = gpu.attribute(OPT_IN) // 4
    words = most // n * n
    x, y = gpu.up(given["x"]), cp.full(n, -1, dtype=np.int32)
    kernel = gpu.compile(SOURCE, "gpuenv_reverse")
    kernel.max_dynamic_shared_size_bytes = most * 4
    kernel((1,), (256,), (x, y, np.int32(words), np.int32(n)), shared_mem=most * 4)
    gpu.measure("shared_memory", most * 4, "B")
    return {"y": gpu.down(y)}
