"""An error in a kernel is reported by a later call that is correct.

A launch returns before its kernel has run. The error is reported by the next call that waits for the GPU, here a
copy. With CUDA_LAUNCH_BLOCKING=1, or a synchronization after each step, the launch itself reports it:

    python examples/async_error_surfaced_late.py
    CUDA_LAUNCH_BLOCKING=1 python examples/async_error_surfaced_late.py

The CUDA context is lost afterwards. Do not run this on a GPU that is shared through MPS.
"""

import os
import sys

import require_gpu

import cupy as cp

SOURCE = r"""
extern "C" __global__ void faulty(unsigned long long address) {
    *(volatile int *)address = 1;
}
"""

y = cp.arange(10)
kernel = cp.RawKernel(SOURCE, "faulty")
kernel.compile()
step = "the launch, which is at fault"
try:
    kernel((1,), (1,), (cp.uint64(16),))
    step = "the copy, which is correct"
    cp.asnumpy(y)
    print("no error was reported")
except RuntimeError as error:  # of the runtime or of the driver API
    print(f"reported by {step}: {error}")
sys.stdout.flush()
os._exit(0)  # nothing can be released in a lost context
