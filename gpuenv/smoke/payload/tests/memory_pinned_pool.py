"""Pinned host memory from its pool: given back and used again, and copied from."""

import numpy as np

from gpuenv.smoke.payload.answers import exact

TITLE = "the pool of pinned memory"
LEVELS = {"normal": {"n": 300007}}
TOLERANCE = "exact: whole numbers"


def inputs(random, size):
    return {"x": random.integers(0, 2**40, size=size["n"], dtype=np.int64)}


def expect(given):
    return {"x": exact(given["x"] * 3), "y": exact(given["x"] * 5), "same_place": exact(np.array([1]))}


def run(gpu, given):
    cp, host = gpu.cp, given["x"]
    pool, got, places = cp.cuda.PinnedMemoryPool(), {}, []
    for name, factor in (("x", 3), ("y", 5)):
        block = pool.malloc(host.nbytes)
        places.append(block.ptr)
        pinned = np.frombuffer(block, dtype=np.int64, count=host.size)
        pinned[...] = host
        there = cp.empty(host.shape, dtype=np.int64)
        there.set(pinned)
        cp.cuda.Device().synchronize()
        got[name] = gpu.down(there * factor)
        del pinned, block
    got["same_place"] = np.array([int(places[0] == places[1])])
    pool.free_all_blocks()
    return got
