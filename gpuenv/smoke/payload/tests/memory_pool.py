"""The memory pool: a block that is given back is used again, and what is free goes back to the GPU when asked."""

import numpy as np

from gpuenv.smoke.payload.answers import exact

TITLE = "pool: reuse, growth and return"
LEVELS = {"quick": {"kib": 4096}, "normal": {"kib": 65536}}
TOLERANCE = "exact: bytes, and whole numbers"


def inputs(random, size):
    # A multiple of 512 bytes, which is what CuPy rounds allocations up to.
    n = size["kib"] * 1024 // 8
    return {
        "x": random.integers(0, 2**62, size=n, dtype=np.int64),
        "y": random.integers(0, 2**62, size=n, dtype=np.int64),
    }


def expect(given):
    n = given["x"].nbytes
    return {
        "x": exact(given["x"]),
        "y": exact(given["y"]),
        # used, then held, after each step: an array, given back, a second one in its place, a third one, all given back
        "used": exact(np.array([n, 0, n, 2 * n, 0])),
        "held": exact(np.array([n, n, n, 2 * n, 2 * n])),
        "same_place": exact(np.array([1])),
        "returned": exact(np.array([0, 0])),
    }


def run(gpu, given):
    cp = gpu.cp
    # A pool of its own: the limit and the allocator that the caller's environment sets stay what they are.
    pool = cp.cuda.MemoryPool()
    pool.set_limit(size=gpu.pool.get_limit())
    used, held, got = [], [], {}

    def note():
        used.append(pool.used_bytes())
        held.append(pool.total_bytes())

    with cp.cuda.using_allocator(pool.malloc):
        x = cp.empty(given["x"].shape, dtype=np.int64)
        x.set(given["x"])
        note()
        got["x"] = gpu.down(x)
        place = x.data.ptr
        del x
        note()
        y = cp.empty(given["y"].shape, dtype=np.int64)
        y.set(given["y"])
        note()
        got["same_place"] = np.array([int(y.data.ptr == place)])
        got["y"] = gpu.down(y)
        z = cp.empty(given["y"].shape, dtype=np.int64)
        note()
        del y, z
        note()
    pool.free_all_blocks()
    got["returned"] = np.array([pool.total_bytes(), pool.n_free_blocks()])
    got["used"], got["held"] = np.array(used), np.array(held)
    return got


def memory(size):
    return size["kib"] * 1024 * 3
