"""The kernel cache: a kernel compiled with an empty cache, and the same one loaded from the file that this left."""

import os
import time

import numpy as np

from gpuenv.smoke.payload.answers import exact

TITLE = "compiling with a cold cache, loading from a warm one"
LEVELS = {"normal": {"n": 4099}}
TOLERANCE = "exact: whole numbers"
ALONE = ["normal", "deep"]
ENVIRONMENT = {"CUPY_CACHE_DIR": "(temporary folder)", "CUPY_CACHE_IN_MEMORY": "0"}
SOURCE = r"""
extern "C" __global__ void gpuenv_cached(const int *x, int *y, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i] * 7 + i;
    }
}
"""
KERNELS = {"gpuenv_cached": SOURCE}


def inputs(random, size):
    return {"x": random.integers(-1000, 1000, size=size["n"], dtype=np.int32)}


def expect(given):
    x = given["x"]
    value = x * 7 + np.arange(x.size, dtype=np.int32)
    return {"cold": exact(value), "warm": exact(value), "kept": exact(np.array([0, 1, 1]))}


def _files():
    folder = os.environ["CUPY_CACHE_DIR"]
    return {name for name in os.listdir(folder) if name.endswith(".cubin")} if os.path.isdir(folder) else set()


def run(gpu, given):
    cp, n = gpu.cp, given["x"].size
    x = gpu.up(given["x"])
    gpu.compile('extern "C" __global__ void gpuenv_first() { }', "gpuenv_first").compile()  # NVRTC itself is loaded
    y = cp.empty(n, dtype=np.int32)
    y.fill(-1)  # CuPy's own kernel for this has its file too, and it is another than that of cupy.full
    got, kept = {}, [0]
    before = _files()
    for name in ("cold", "warm"):
        cp.clear_memo()
        started = time.perf_counter()
        kernel = gpu.compile(SOURCE, "gpuenv_cached")
        kernel.compile()
        gpu.measure("compile_" + name, time.perf_counter() - started, "s")
        y.fill(-1)
        kernel(((n + 127) // 128,), (128,), (x, y, np.int32(n)))
        got[name] = gpu.down(y)
        kept.append(len(_files() - before))
    got["kept"] = np.array(kept)
    return got
