"""Managed memory: written by the GPU, read on the host by address, where the GPU has it."""

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.gpu import Skip
from gpuenv.smoke.payload.harness import cuda_status

TITLE = "managed memory"
LEVELS = {"normal": {"n": 1000003}}
TOLERANCE = "exact: whole numbers"
MANAGED = 83  # cudaDevAttrManagedMemory (driver_types.h)
NOT_SUPPORTED = 801  # cudaErrorNotSupported: likewise


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
        x = lent(lambda: cp.empty(given["x"].shape, dtype=np.int64))
        x.set(given["x"])
        x += 11
        cp.cuda.Device().synchronize()
        got = {"device": gpu.down(x)}
        raw = (ctypes.c_int64 * x.size).from_address(x.data.ptr)
        got["host"] = np.frombuffer(raw, dtype=np.int64).copy()
        del raw, x
    pool.free_all_blocks()
    return got


def lent(make):
    """What was asked for. A vGPU may have no managed memory though its GPU has, and a sandbox may keep it away.

    NVIDIA AI Enterprise Release Notes, Unified Memory Support; gvisor, issue 9593.
    """
    try:
        return make()
    except RuntimeError as error:
        if cuda_status(error) != NOT_SUPPORTED:
            raise
        raise Skip("this GPU has no managed memory to lend here: %s" % error) from error


def memory(size):
    return size["n"] * 8 * 3
