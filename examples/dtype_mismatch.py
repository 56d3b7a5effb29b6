"""A raw kernel gets an array of another type than it expects.

A raw kernel receives addresses: nothing checks that an array of doubles in Python is an array of floats in C++.
Convert the array, or check its type before the launch.

    python examples/dtype_mismatch.py
"""

import require_gpu

import cupy as cp

SOURCE = r"""
extern "C" __global__ void twice(float *x, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        x[i] *= 2;
    }
}
"""
twice = cp.RawKernel(SOURCE, "twice")

x = cp.full(100, 1.1)
twice((1,), (128,), (x, cp.int32(x.size)))
print(f"an array of float64: twice 1.1 is {float(x[0])!r}")

x = cp.full(100, 1.1, dtype=cp.float32)
twice((1,), (128,), (x, cp.int32(x.size)))
print(f"an array of float32: twice 1.1 is {float(x[0]):.6f}")
