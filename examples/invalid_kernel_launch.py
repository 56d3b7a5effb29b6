"""A kernel is launched with more threads than a block may have.

A block has at most 1024 threads; a larger problem takes more blocks, not larger ones.

    python examples/invalid_kernel_launch.py
"""

import require_gpu

import cupy as cp

SOURCE = r"""
extern "C" __global__ void count(int *x, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        x[i] = i;
    }
}
"""
count = cp.RawKernel(SOURCE, "count")
x = cp.zeros(5000, dtype=cp.int32)

try:
    count((1,), (5000,), (x, cp.int32(x.size)))
    print(f"one block of 5000 threads: the last element is {int(x[-1])}")
except cp.cuda.driver.CUDADriverError as error:
    print(f"one block of 5000 threads: {error}")

blocks = (x.size + 255) // 256
count((blocks,), (256,), (x, cp.int32(x.size)))
print(f"{blocks} blocks of 256 threads: the last element is {int(x[-1])}")
