"""A kernel does not check its bounds.

A grid has more threads than the array has elements; those beyond the end must do nothing.

    python examples/illegal_memory_access.py

The CUDA context is lost afterwards. Do not run this on a GPU that is shared through MPS.
"""

import os
import sys

import require_gpu

import cupy as cp

CHECKED = r"""
extern "C" __global__ void fill(int *x, long long n) {
    long long i = (long long)blockDim.x * blockIdx.x + threadIdx.x;
    if (i << 40 < n) {
        x[i << 40] = 1;
    }
}
"""
UNCHECKED = r"""
extern "C" __global__ void fill(int *x, long long n) {
    long long i = (long long)blockDim.x * blockIdx.x + threadIdx.x;
    x[i << 40] = 1;
}
"""

x = cp.zeros(1000, dtype=cp.int32)
for title, source in (("with a check", CHECKED), ("without a check", UNCHECKED)):
    try:
        cp.RawKernel(source, "fill")((400,), (256,), (x, cp.int64(x.size)))
        print(f"{title}: {int(x.sum())} element is set")
    except RuntimeError as error:  # of the runtime or of the driver API
        print(f"{title}: {error}")
sys.stdout.flush()
os._exit(0)  # nothing can be released in a lost context
