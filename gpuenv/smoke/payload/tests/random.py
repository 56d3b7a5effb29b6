"""Random numbers."""

import math

import numpy as np

from gpuenv.smoke.payload.expected import approx, exact
from gpuenv.smoke.payload.tests import GpuTest


class Moments(GpuTest):
    """Uniform, normal and exponential numbers have the expected moments."""

    TITLE = "moments of random numbers"
    LEVELS = {"quick": {"n": 200000}, "normal": {"n": 2000000}, "deep": {"n": 50000000}}
    HOST = 0.1  # only the moments
    TOLERANCE = "7 standard errors of each mean: a correct generator exceeds them once in 4e11 times"
    SHRINKS = "n"
    BYTES = 6 * 8
    # Distribution -> its mean and its second to fourth central moments; each is then shifted by an offset.
    MOMENTS = {
        "uniform": (0.5, 1 / 12.0, 0.0, 1 / 80.0),
        "normal": (0.0, 1.0, 0.0, 3.0),
        "exponential": (1.0, 1.0, 2.0, 9.0),
    }

    def inputs(self, random, size):
        seed = int(random.integers(1, 2**31 - 1))
        return {"n": size["n"], "seed": seed, "distance": float(random.uniform(0.5, 2.0))}

    def expect(self, data):
        n, answers = data["n"], {}
        for name, (origin, second, third, fourth) in self.MOMENTS.items():
            mean = origin + data["distance"]
            square = mean * mean + second
            spread = fourth - second**2 + 4 * mean * third + 4 * mean**2 * second  # the variance of the square
            error = 7.0 * np.sqrt(np.array([second, spread]) / n)
            answers[name] = approx(np.array([mean, square]), error, "d")
        # The share of numbers in each half of the interval, which detects a constant.
        answers["halves"] = approx(np.array([0.5, 0.5]), 7.0 * math.sqrt(0.25 / n), "d")
        return answers

    def run(self, gpu, data):
        cp, n = gpu.cp, data["n"]
        generator = cp.random.default_rng(data["seed"])
        cp.random.seed(data["seed"])
        distance = data["distance"]
        draws = {
            "uniform": generator.random(n) + distance,
            # The legacy interface has its own generator.
            "normal": cp.random.normal(distance, 1.0, size=n),
            "exponential": generator.standard_exponential(n) + distance,
        }
        got = {name: gpu.to_host(cp.stack([x.mean(), (x * x).mean()])) for name, x in draws.items()}
        upper = (draws["uniform"] >= 0.5 + distance).astype(cp.float64).mean()
        got["halves"] = gpu.to_host(cp.stack([1.0 - upper, upper]))
        return got


class Reproducible(GpuTest):
    """Seeds reproduce numbers, other seeds give others; a permutation has every number once."""

    TITLE = "reproducible seeds, and permutations"
    LEVELS = {"normal": {"n": 100003}, "deep": {"n": 3000017}}
    HOST = 0.75  # a permutation alone
    TOLERANCE = "exact for equal seeds; for other seeds at most 3 doubles in a million agree by chance"
    SHRINKS = "n"
    BYTES = 12 * 8

    def inputs(self, random, size):
        return {"n": size["n"] + int(random.integers(1000)), "seed": int(random.integers(1, 2**31 - 2))}

    def expect(self, data):
        n = data["n"]
        return {
            "same": exact(np.array([n, n], dtype=np.int64)),
            "other": approx(np.array([n, n]), 3 + n // 10**6, np.int64),
            "permutation": exact(np.arange(n, dtype=np.int64)),
            # The number of fixed points has a Poisson distribution with mean 1.
            "moved": approx(np.array(n), 20, np.int64),
        }

    def run(self, gpu, data):
        cp, n, seed = gpu.cp, data["n"], data["seed"]

        def draw(number):
            old = cp.random.RandomState(number)
            return cp.random.default_rng(number).random(n), old.random_sample(n)

        first, again, other = draw(seed), draw(seed), draw(seed + 1)
        permutation = cp.random.RandomState(seed).permutation(n)
        count = cp.count_nonzero
        return {
            "same": gpu.to_host(cp.stack([count(x == y) for x, y in zip(first, again)])).astype(np.int64),
            "other": gpu.to_host(cp.stack([count(x != y) for x, y in zip(first, other)])).astype(np.int64),
            "permutation": gpu.to_host(cp.sort(permutation)).astype(np.int64),
            "moved": gpu.to_host(count(permutation != cp.arange(n))).astype(np.int64),
        }
