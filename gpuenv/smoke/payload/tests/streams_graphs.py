"""A graph: kernels captured from a stream once, launched many times."""

import numpy as np

from gpuenv.smoke.payload.answers import exact

TITLE = "graphs"
LEVELS = {"normal": {"launches": 50}, "deep": {"launches": 2000}}
TOLERANCE = "exact: whole numbers, modulo 2**32"
SOURCE = r"""
extern "C" __global__ void gpuenv_step(unsigned int *x, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        x[i] = x[i] * 3u + (unsigned int)i;
    }
}
"""
KERNELS = {"gpuenv_step": SOURCE}
N = 4099


def inputs(random, size):
    return {"x": random.integers(0, 2**32, size=N, dtype=np.uint32), "launches": size["launches"]}


def expect(given):
    x = given["x"].astype(np.uint64)
    for _ in range(2 * given["launches"]):
        x = (x * np.uint64(3) + np.arange(N, dtype=np.uint64)) & np.uint64(0xFFFFFFFF)
    return {"x": exact(x.astype(np.uint32)), "captured": exact(given["x"])}


def run(gpu, given):
    cp = gpu.cp
    x, step = gpu.up(given["x"]), gpu.compile(SOURCE, "gpuenv_step")
    step((1,), (1,), (x, np.int32(0)))  # loaded before the capture, and nothing done
    stream = cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        for _ in range(2):
            step(((N + 127) // 128,), (128,), (x, np.int32(N)))
        graph = stream.end_capture()
    stream.synchronize()
    captured = gpu.down(x)  # capturing runs nothing
    with stream:
        for _ in range(given["launches"]):
            graph.launch()
    stream.synchronize()
    return {"x": gpu.down(x), "captured": captured}
