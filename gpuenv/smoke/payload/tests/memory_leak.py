"""A thousand rounds of allocating, computing and giving back leave nothing behind."""

import numpy as np

from gpuenv.smoke.payload.answers import exact, near

TITLE = "no leak over a thousand rounds"
LEVELS = {"normal": {"rounds": 1000}, "deep": {"rounds": 20000}}
ALONE = ["normal", "deep"]
TOLERANCE = "exact for the pool; of the GPU's free memory 64 MiB may go, which others or the driver may take meanwhile"
N = 100000
MAY_GO = 64 << 20  # bytes


def inputs(random, size):
    return {"x": random.integers(0, 1000, size=N, dtype=np.int64), "rounds": size["rounds"]}


def expect(given):
    return {
        "x": exact(given["x"] + given["rounds"]),
        "grown": exact(np.array([1, 1])),
        "free": near(np.array(1.0), MAY_GO / float(1 << 30), "d"),
    }


def run(gpu, given):
    cp, x = gpu.cp, gpu.up(given["x"])

    def one(x):
        kept = [cp.empty(N + 512 * number, dtype=np.float64) for number in range(4)]
        del kept
        return x + 1

    for _ in range(20):
        one(x)
    cp.cuda.Device().synchronize()
    held, used, answers = gpu.pool.total_bytes(), gpu.pool.used_bytes(), []

    def all_rounds():
        nonlocal x
        free = gpu.room()
        for _ in range(given["rounds"]):
            x = one(x)
        cp.cuda.Device().synchronize()
        lost = free - gpu.room()
        answers.append(gpu.down(x))
        return lost

    lost = leaked(all_rounds)
    grown = [int(gpu.pool.total_bytes() == held), int(gpu.pool.used_bytes() == used)]
    # One, less the gibibytes that were lost.
    return {"x": answers[0], "grown": np.array(grown), "free": np.array(1.0 - max(lost, 0) / float(1 << 30))}


def leaked(all_rounds):
    """Bytes that are gone after all rounds; where it is too much, once more: a leak is there again.

    Another program that starts meanwhile, or a desktop, takes its memory once.
    """
    lost = all_rounds()
    return lost if lost <= MAY_GO else min(lost, all_rounds())
