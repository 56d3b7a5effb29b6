"""Blocks of many sizes, given back in pieces: neighbours are joined, and the contents of the others stay."""

import numpy as np

from gpuenv.smoke.payload.answers import exact

TITLE = "fragmentation: neighbours are joined again"
LEVELS = {"normal": {"blocks": 64}, "deep": {"blocks": 512}}
HOST = 0.1  # nothing
TOLERANCE = "exact: bytes, and whole numbers"
BLOCK = 1 << 20


def inputs(random, size):
    return {"blocks": size["blocks"], "start": int(random.integers(1, 2**30))}


def expect(given):
    blocks = given["blocks"]
    values = given["start"] + np.arange(blocks, dtype=np.int64)
    whole = blocks * BLOCK
    return {
        # One large block is split for the small ones; they become one again when all are given back, and it is used
        # for the next large one: had they stayed apart, the pool would hold twice as much then.
        "held": exact(np.array([whole, whole, whole, whole, whole])),
        "used": exact(np.array([0, whole, whole // 2, 0, whole])),
        "values": exact(values[1::2]),
        "large": exact(values),
    }


def run(gpu, given):
    cp, blocks, start = gpu.cp, given["blocks"], given["start"]
    pool, held, used = cp.cuda.MemoryPool(), [], []

    def note():
        held.append(pool.total_bytes())
        used.append(pool.used_bytes())

    with cp.cuda.using_allocator(pool.malloc):
        large = cp.empty(blocks * BLOCK // 8, dtype=np.int64)
        del large
        note()
        pieces = [cp.full(BLOCK // 8, start + number, dtype=np.int64) for number in range(blocks)]
        note()
        del pieces[::2]
        note()
        values = np.array([int(gpu.down(piece[-1:])[0]) for piece in pieces])
        del pieces
        note()
        large = cp.empty(blocks * BLOCK // 8, dtype=np.int64)
        note()
        large[:: BLOCK // 8] = cp.arange(start, start + blocks, dtype=np.int64)
        got = {"large": gpu.down(large[:: BLOCK // 8]), "values": values}
        del large
    pool.free_all_blocks()
    got["held"], got["used"] = np.array(held), np.array(used)
    return got


def memory(size):
    return size["blocks"] * BLOCK * 2
