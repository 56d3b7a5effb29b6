"""Sustained load: the same product again and again, every result compared bit for bit on the GPU, the rate watched."""

import time

import numpy as np

from gpuenv.smoke.payload.answers import UNIT, exact
from gpuenv.smoke.payload.common.matrix import NO_TF32, product, product_memory

TITLE = "sustained load gives the same bits"
LEVELS = {"deep": {"n": 4096, "seconds": 30}}
HOST = 1.5  # two matrices
TOLERANCE = "exact: every later product has the bits of the first; a corner of that within gamma(2 k) |A| |B|"
ALONE = ["normal", "deep"]
ENVIRONMENT = NO_TF32
SHRINKS = "n"
SECONDS = {"deep": 300}
CORNER = 16


def inputs(random, size):
    n = size["n"]
    return {
        "a": random.standard_normal((n, n), dtype="f"),
        "b": random.standard_normal((n, n), dtype="f"),
        "seconds": size["seconds"],
    }


def expect(given):
    a, b = given["a"][:CORNER], given["b"][:, : CORNER + 1]
    return {"corner": product(a, b, UNIT["f"], "f"), "differing": exact(np.array(0)), "ran": exact(np.array(1))}


def run(gpu, given):
    cp, n = gpu.cp, given["a"].shape[0]
    a, b = gpu.up(given["a"]), gpu.up(given["b"])
    first = cp.matmul(a, b)
    differing, rates = cp.zeros((), dtype=np.int64), []
    until = time.perf_counter() + given["seconds"]
    while time.perf_counter() < until:
        took = gpu.seconds(lambda: cp.matmul(a, b), rounds=20, warm=0)
        again = cp.matmul(a, b)
        rates.append(2.0 * n**3 / took)
        differing += cp.count_nonzero(first.view(np.int32) != again.view(np.int32))
    tenth = max(len(rates) // 10, 1)
    gpu.measure("sustained_first", float(np.median(rates[:tenth])), "FLOP/s")
    gpu.measure("sustained_last", float(np.median(rates[-tenth:])), "FLOP/s")
    return {
        "corner": gpu.down(first[:CORNER, : CORNER + 1]),
        "differing": gpu.down(differing),
        "ran": np.array(int(len(rates) > 0)),
    }


def memory(size):
    return product_memory(size, 4)
