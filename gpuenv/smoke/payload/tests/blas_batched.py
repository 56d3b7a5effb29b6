"""Batched products, and products of transposed and strided views."""

import numpy as np

from gpuenv.smoke.payload.answers import UNIT
from gpuenv.smoke.payload.common.matrix import product

TITLE = "batched, strided and transposed products"
LEVELS = {"normal": {"n": 96, "batch": 12}, "deep": {"n": 256, "batch": 64}}
TOLERANCE = "gamma(2 k) |A| |B| on either side, in double precision"
SHRINKS = "batch"


def inputs(random, size):
    n, batch = size["n"], size["batch"]
    return {
        "a": random.standard_normal((batch, n, n + 4)),
        "b": random.standard_normal((batch, n + 4, n + 8)),
        "one": random.standard_normal((n + 4, n + 8)),
    }


def expect(given):
    a, b, one = given["a"], given["b"], given["one"]
    pairs = {
        "batched": (a, b),
        "broadcast": (a, one),
        "transposed": (b.transpose(0, 2, 1), a.transpose(0, 2, 1)),
        "strided": (a[0, ::2, ::-1], one[::-1, 1::3]),
        "fortran": (np.asfortranarray(one.T), np.asfortranarray(b[-1])),
    }
    answers = {name: product(x, y, UNIT["d"], "d") for name, (x, y) in pairs.items()}
    return {name: answer._replace(bound=2 * answer.bound) for name, answer in answers.items()}


def run(gpu, given):
    cp = gpu.cp
    a, b, one = gpu.up(given["a"]), gpu.up(given["b"]), gpu.up(given["one"])
    return {
        "batched": gpu.down(a @ b),
        "broadcast": gpu.down(cp.matmul(a, one)),
        "transposed": gpu.down(b.transpose(0, 2, 1) @ a.transpose(0, 2, 1)),
        "strided": gpu.down(a[0, ::2, ::-1] @ one[::-1, 1::3]),
        "fortran": gpu.down(cp.asfortranarray(one.T) @ cp.asfortranarray(b[-1])),
    }


def memory(size):
    return size["batch"] * (size["n"] + 8) ** 2 * 8 * 8
