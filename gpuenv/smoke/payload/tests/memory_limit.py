"""A pool with a limit refuses what is beyond it, says so, and serves what is within."""

import numpy as np

from gpuenv.smoke.payload.answers import exact

TITLE = "a limit is respected, and what follows works"
LEVELS = {"normal": {"mib": 64}}
TOLERANCE = "exact: 1 where an allocation was refused with OutOfMemoryError, and whole numbers"


def inputs(random, size):
    limit = size["mib"] << 20
    return {"limit": limit, "x": random.integers(0, 2**62, size=limit // 2 // 8, dtype=np.int64)}


def expect(given):
    return {
        "refused": exact(np.array([1, 0, 1])),
        "limit": exact(np.array(given["limit"])),
        "x": exact(given["x"]),
    }


def run(gpu, given):
    cp, limit = gpu.cp, given["limit"]
    pool = cp.cuda.MemoryPool()
    pool.set_limit(size=limit)
    refused, kept = [], []

    def take(count):
        try:
            kept.append(cp.empty(count, dtype=np.uint8))
            refused.append(0)
        except cp.cuda.memory.OutOfMemoryError:
            refused.append(1)

    with cp.cuda.using_allocator(pool.malloc):
        take(2 * limit)
        take(limit // 4)
        take(limit)
        kept.clear()
        pool.free_all_blocks()
        x = cp.empty(given["x"].shape, dtype=np.int64)
        x.set(given["x"])
        got = {"x": x.get(), "limit": np.array(pool.get_limit())}
        del x
    # Brought down once more by the usual way, from the usual pool.
    got["x"] = gpu.down(gpu.up(got["x"]))
    got["refused"] = np.array(refused)
    pool.free_all_blocks()
    return got


def memory(size):
    return size["mib"] << 21
