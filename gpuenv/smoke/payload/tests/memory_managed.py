"""Managed memory: written by the GPU, read on the host by address, where the GPU has it."""

from __future__ import annotations

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.gpu import Skip

GROUP = "memory"
TITLE = "managed memory"
LEVELS = {"normal": {"n": 1000003}}
NEEDS: list = []
TOLERANCE = "exact: whole numbers"
MANAGED = 83  # cudaDevAttrManagedMemory (driver_types.h)


def inputs(random, size):
    return {"x": random.integers(0, 2**40, size=size["n"], dtype=np.int64)}


def expect(given):
    return {"device": exact(given["x"] + 11), "host": exact(given["x"] + 11)}


def run(gpu, given):
    import ctypes

    cp = gpu.cp
    if not gpu.attribute(MANAGED):
        raise Skip("this GPU has no managed memory")
    pool = cp.cuda.MemoryPool(cp.cuda.malloc_managed)
    with cp.cuda.using_allocator(pool.malloc):
        x = cp.empty(given["x"].shape, dtype=np.int64)
        x.set(given["x"])
        x += 11
        cp.cuda.Device().synchronize()
        got = {"device": gpu.down(x)}
        raw = (ctypes.c_int64 * x.size).from_address(x.data.ptr)
        got["host"] = np.frombuffer(raw, dtype=np.int64).copy()
        del raw, x
    pool.free_all_blocks()
    return got


def memory(size):
    return size["n"] * 8 * 3
