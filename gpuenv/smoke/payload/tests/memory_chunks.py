"""An array that does not fit at once is worked off in pieces, within a pool that may hold two of them."""

import numpy as np

from gpuenv.smoke.payload.answers import exact

TITLE = "an array larger than the pool, in pieces"
LEVELS = {"normal": {"mib": 64, "pieces": 16}, "deep": {"mib": 512, "pieces": 32}}
HOST = 30  # all the pieces
TOLERANCE = "exact: whole numbers, and the bytes that the pool held at most"
SHRINKS = "mib"


def inputs(random, size):
    n = max(size["mib"], 1) * (1 << 20) // 8 // size["pieces"]
    return {"x": random.integers(0, 2**40, size=(size["pieces"], n), dtype=np.int64)}


def expect(given):
    x = given["x"]
    return {"x": exact((x ^ 0x5A5A5A) + 1), "within": exact(np.array([1]))}


def run(gpu, given):
    cp, x = gpu.cp, given["x"]
    pool, answer, most = cp.cuda.MemoryPool(), np.empty_like(x), 0
    limit = 3 * x[0].nbytes + (1 << 20)
    pool.set_limit(size=limit)
    with cp.cuda.using_allocator(pool.malloc):
        for number in range(x.shape[0]):
            piece = cp.empty(x[number].shape, dtype=np.int64)
            piece.set(x[number])
            piece ^= 0x5A5A5A
            piece += 1
            answer[number] = piece.get()
            most = max(most, pool.total_bytes())
            del piece
    pool.free_all_blocks()
    last = gpu.down(gpu.up(answer[-1]))
    answer[-1] = last
    return {"x": answer, "within": np.array([int(0 < most <= limit)])}


def memory(size):
    return (size["mib"] << 20) // size["pieces"] * 5
