"""A faulty source is refused with the compiler's message, and the next kernel works."""

import numpy as np

from gpuenv.smoke.payload.answers import exact

TITLE = "a compile error is reported as such"
LEVELS = {"normal": {"n": 1031}}
TOLERANCE = "exact: whole numbers; 1 where the error named the unknown word"
FAULTY = 'extern "C" __global__ void gpuenv_faulty(int *x) { x[0] = no_such_word; }'
SOURCE = r"""
extern "C" __global__ void gpuenv_right(int *x, int n, int start) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        x[i] = i * 3 + start;
    }
}
"""
KERNELS = {"gpuenv_right": SOURCE}


def inputs(random, size):
    return {"n": size["n"], "start": int(random.integers(1, 2**20))}


def expect(given):
    return {
        "refused": exact(np.array([1, 1])),
        "after": exact(np.arange(given["n"], dtype=np.int32) * 3 + np.int32(given["start"])),
    }


def run(gpu, given):
    cp, n = gpu.cp, given["n"]
    refused = [0, 0]
    try:
        cp.RawKernel(FAULTY, "gpuenv_faulty").compile()
    except cp.cuda.compiler.CompileException as error:
        refused = [1, int("no_such_word" in str(error))]
    x = cp.full(n, -1, dtype=np.int32)
    gpu.compile(SOURCE, "gpuenv_right")(((n + 127) // 128,), (128,), (x, np.int32(n), np.int32(given["start"])))
    return {"refused": np.array(refused), "after": gpu.down(x)}
