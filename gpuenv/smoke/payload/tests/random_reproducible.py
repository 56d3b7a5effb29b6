"""The same seed gives the same numbers, another seed others; a permutation holds every number once."""

import numpy as np

from gpuenv.smoke.payload.answers import exact, near

TITLE = "reproducible seeds, and permutations"
LEVELS = {"normal": {"n": 100003}, "deep": {"n": 3000017}}
HOST = 0.75  # a permutation alone
TOLERANCE = "exact where the seed is the same; of other seeds at most 3 doubles in a million agree by chance"
SHRINKS = "n"


def inputs(random, size):
    return {"n": size["n"] + int(random.integers(1000)), "seed": int(random.integers(1, 2**31 - 2))}


def expect(given):
    n = given["n"]
    return {
        "same": exact(np.array([n, n], dtype=np.int64)),
        "other": near(np.array([n, n]), 3 + n // 10**6, np.int64),
        "permutation": exact(np.arange(n, dtype=np.int64)),
        # As many numbers stay in their place as a Poisson distribution of mean 1 says.
        "moved": near(np.array(n), 20, np.int64),
    }


def run(gpu, given):
    cp, n, seed = gpu.cp, given["n"], given["seed"]

    def draw(number):
        old = cp.random.RandomState(number)
        return cp.random.default_rng(number).random(n), old.random_sample(n)

    first, again, other = draw(seed), draw(seed), draw(seed + 1)
    permutation = cp.random.RandomState(seed).permutation(n)
    count = cp.count_nonzero
    return {
        "same": gpu.down(cp.stack([count(x == y) for x, y in zip(first, again)])).astype(np.int64),
        "other": gpu.down(cp.stack([count(x != y) for x, y in zip(first, other)])).astype(np.int64),
        "permutation": gpu.down(cp.sort(permutation)).astype(np.int64),
        "moved": gpu.down(count(permutation != cp.arange(n))).astype(np.int64),
    }


def memory(size):
    return size["n"] * 8 * 12
