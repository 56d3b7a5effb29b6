"""A kernel that takes a known time, so that work that is not ordered shows."""

from __future__ import annotations

import numpy as np

# %globaltimer counts nanoseconds (PTX ISA, Special Registers); its steps are about a microsecond on many GPUs.
SOURCE = r"""
__device__ unsigned long long gpuenv_now() {
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

extern "C" __global__ void gpuenv_delayed_fill(int *x, int n, int value, unsigned long long nanoseconds) {
    unsigned long long start = gpuenv_now();
    while (gpuenv_now() - start < nanoseconds) { }
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        x[i] = value + i;
    }
}

extern "C" __global__ void gpuenv_take(const int *x, int *y, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        y[i] = x[i] * 2;
    }
}
"""
KERNELS = {"gpuenv_delayed_fill": SOURCE}
# A caller may have set it to 1, to find a fault: each launch then waits for its kernel (CUDA C++ Programming Guide,
# CUDA Environment Variables), and neither order nor time could be tested.
ENVIRONMENT = {"CUDA_LAUNCH_BLOCKING": "0"}


def kernels(gpu):
    """The producer, which waits before it writes, and the consumer."""
    fill, take = gpu.compile(SOURCE, "gpuenv_delayed_fill"), gpu.compile(SOURCE, "gpuenv_take")
    # Beforehand: a compiler takes longer than any delay here.
    fill.compile()
    take.compile()
    return fill, take


def produce(kernel, x, value, seconds):
    """Fills x with value, value + 1, ... after a delay, on the current stream."""
    kernel((1,), (256,), (x, np.int32(x.size), np.int32(value), np.uint64(int(seconds * 1e9))))


def consume(kernel, x, y):
    """Writes twice x into y, on the current stream."""
    kernel((1,), (256,), (x, y, np.int32(x.size)))


def filled(n, value):
    """What the consumer should have seen, doubled."""
    return 2 * (np.arange(n, dtype=np.int32) + value).astype(np.int32)
