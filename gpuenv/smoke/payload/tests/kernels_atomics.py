"""Atomic operations: a histogram in shared and in global memory, a maximum, and an exchange loop."""

import numpy as np

from gpuenv.smoke.payload.answers import exact

TITLE = "atomic operations"
LEVELS = {"normal": {"n": 1000003}, "deep": {"n": 50000017}}
HOST = 6  # counting takes wide numbers
TOLERANCE = "exact: whole numbers, whose sum does not depend on the order"
SHRINKS = "n"
EXACT_REPEAT = True
SOURCE = r"""
extern "C" __global__ void gpuenv_histogram(const int *x, unsigned long long *bins, int *largest,
                                            unsigned int *mixed, long long n) {
    __shared__ unsigned int local[64];
    __shared__ unsigned int local_mixed;
    __shared__ int local_largest;
    if (threadIdx.x < 64) {
        local[threadIdx.x] = 0;
    }
    if (threadIdx.x == 0) {
        local_mixed = 0;
        local_largest = -1;
    }
    __syncthreads();
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockDim.x * blockIdx.x + threadIdx.x; i < n; i += step) {
        atomicAdd(&local[x[i] & 63], 1u);
        atomicMax(&local_largest, x[i]);
        atomicXor(&local_mixed, (unsigned int)x[i]);
    }
    __syncthreads();
    if (threadIdx.x < 64) {
        atomicAdd(&bins[threadIdx.x], (unsigned long long)local[threadIdx.x]);
    }
    if (threadIdx.x == 0) {
        atomicMax(largest, local_largest);
        unsigned int seen = *(volatile unsigned int *)mixed, wanted;
        do {
            wanted = seen;
            seen = atomicCAS(mixed, wanted, wanted ^ local_mixed);
        } while (seen != wanted);
    }
}
"""
KERNELS = {"gpuenv_histogram": SOURCE}


def inputs(random, size):
    return {"x": random.integers(0, 2**30, size=size["n"], dtype=np.int32)}


def expect(given):
    x = given["x"]
    return {
        "bins": exact(np.bincount(x & 63, minlength=64).astype(np.uint64)),
        "largest": exact(np.array([x.max()], dtype=np.int32)),
        "mixed": exact(np.array([np.bitwise_xor.reduce(x)], dtype=np.uint32)),
    }


def run(gpu, given):
    cp = gpu.cp
    x, bins = gpu.up(given["x"]), cp.zeros(64, dtype=np.uint64)
    largest, mixed = cp.full(1, -1, dtype=np.int32), cp.zeros(1, dtype=np.uint32)
    kernel = gpu.compile(SOURCE, "gpuenv_histogram")
    kernel((96,), (256,), (x, bins, largest, mixed, np.int64(x.size)))
    return {"bins": gpu.down(bins), "largest": gpu.down(largest), "mixed": gpu.down(mixed)}


def memory(size):
    return size["n"] * 4
