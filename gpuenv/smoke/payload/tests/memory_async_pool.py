"""The driver's own pool: stream-ordered allocation through MemoryAsyncPool."""

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.gpu import Skip

TITLE = "the asynchronous pool"
LEVELS = {"normal": {"n": 1000003, "rounds": 30}}
TOLERANCE = "exact: whole numbers"
SUPPORTED = 115  # cudaDevAttrMemoryPoolsSupported (driver_types.h)


def inputs(random, size):
    return {"x": random.integers(0, 2**40, size=size["n"], dtype=np.int64), "rounds": size["rounds"]}


def expect(given):
    return {"x": exact(given["x"] + 3 * given["rounds"])}


def run(gpu, given):
    cp = gpu.cp
    if not gpu.attribute(SUPPORTED):
        raise Skip("this GPU or driver has no stream-ordered memory pools")
    pool = cp.cuda.MemoryAsyncPool()
    stream = cp.cuda.Stream(non_blocking=True)
    with cp.cuda.using_allocator(pool.malloc), stream:
        x = cp.empty(given["x"].shape, dtype=np.int64)
        x.set(given["x"], stream=stream)
        for _ in range(given["rounds"]):
            x = x + 3
        stream.synchronize()
        answer = gpu.down(x)
        del x
        stream.synchronize()
    return {"x": answer}


def memory(size):
    return size["n"] * 8 * 4
