"""A module with a template and constant memory: instantiated by name, filled from the host."""

import numpy as np

from gpuenv.smoke.payload.answers import exact

TITLE = "a raw module: templates and constant memory"
LEVELS = {"normal": {"n": 100003}}
TOLERANCE = "exact: whole numbers, and products of small ones in single precision"
EXPRESSIONS = ("gpuenv_scaled<int>", "gpuenv_scaled<float>")
SOURCE = r"""
__constant__ int factors[4];

template <typename T>
__global__ void gpuenv_scaled(const T *x, T *y, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i] * (T)factors[i % 4] + (T)(i % 3);
    }
}
"""
KERNELS = {"gpuenv_scaled": SOURCE}


def inputs(random, size):
    return {
        "x": random.integers(-5000, 5000, size=size["n"], dtype=np.int32),
        "factors": random.integers(2, 100, size=4, dtype=np.int32),
    }


def expect(given):
    x, factors = given["x"], given["factors"]
    place = np.arange(x.size)
    value = x.astype(np.int64) * factors[place % 4] + place % 3
    return {"whole": exact(value.astype(np.int32)), "single": exact(value.astype(np.float32))}


def run(gpu, given):
    cp = gpu.cp
    module = cp.RawModule(code=gpu.source(SOURCE), options=("-std=c++11",), name_expressions=list(EXPRESSIONS))
    # The functions first: asking for one is what compiles the module.
    kernels = [module.get_function(name) for name in EXPRESSIONS]
    constant = cp.ndarray((4,), dtype=np.int32, memptr=module.get_global("factors"))
    constant[...] = gpu.up(given["factors"])
    n, got = given["x"].size, {}
    for name, dtype, kernel in zip(("whole", "single"), (np.int32, np.float32), kernels):
        x, y = gpu.up(given["x"].astype(dtype)), cp.full(n, -1, dtype=dtype)
        kernel(((n + 127) // 128,), (128,), (x, y, np.int32(n)))
        got[name] = gpu.down(y)
    return got
