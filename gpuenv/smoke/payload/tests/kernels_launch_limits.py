"""A launch beyond the device's limits is refused, and the next launch works."""

import numpy as np

from gpuenv.smoke.payload.answers import exact

TITLE = "launches beyond the limits are refused"
LEVELS = {"normal": {"n": 4096}}
TOLERANCE = "exact: whole numbers; 1 for each launch that was refused"
SOURCE = r"""
extern "C" __global__ void gpuenv_count(int *x, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        x[i] += i;
    }
}
"""
KERNELS = {"gpuenv_count": SOURCE}
# No device takes more than 1024 threads a block, or 65535 blocks in the second dimension (CUDA C++ Programming Guide,
# Compute Capabilities, Technical Specifications).
BEYOND = (((1,), (2048,), 0), ((1, 70000), (1,), 0), ((1,), (1,), 1 << 30))


def inputs(random, size):
    return {"n": size["n"], "start": int(random.integers(1, 2**20))}


def expect(given):
    after = np.arange(given["n"], dtype=np.int32) + np.int32(given["start"])
    return {"refused": exact(np.array([1] * len(BEYOND))), "after": exact(after)}


def run(gpu, given):
    cp, n = gpu.cp, given["n"]
    x = cp.full(n, given["start"], dtype=np.int32)
    kernel, refused = gpu.compile(SOURCE, "gpuenv_count"), []
    for grid, block, shared in BEYOND:
        try:
            kernel(grid, block, (x, np.int32(n)), shared_mem=shared)
            refused.append(0)
        except (cp.cuda.driver.CUDADriverError, cp.cuda.runtime.CUDARuntimeError):
            refused.append(1)
    kernel(((n + 255) // 256,), (256,), (x, np.int32(n)))
    return {"refused": np.array(refused), "after": gpu.down(x)}
