"""Sparse matrix times vector and times dense matrix."""

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.common import plain
from gpuenv.smoke.payload.common.sparse import dense, on_gpu, random_csr

TITLE = "CSR matrix times vector and dense matrix"
LEVELS = {"quick": {"n": 300}, "normal": {"n": 1200}, "deep": {"n": 5000}}
ENVIRONMENT = plain.ENVIRONMENT  # whether a matrix has every element once is a reduction
TOLERANCE = "exact: sums of products of small whole numbers are exact in double precision, in any order"
SHRINKS = "n"


def inputs(random, size):
    n = size["n"]
    return {
        "a": random_csr(random, n, n + 50, 12),
        "x": random.integers(-50, 50, size=n + 50).astype("d"),
        "b": random.integers(-50, 50, size=(n + 50, 7)).astype("d"),
    }


def expect(given):
    a = dense(given["a"])
    return {"vector": exact(a @ given["x"]), "matrix": exact(a @ given["b"]), "dense": exact(a)}


def run(gpu, given):
    a = on_gpu(gpu, given["a"])
    return {
        "vector": gpu.down(a.dot(gpu.up(given["x"]))),
        "matrix": np.ascontiguousarray(gpu.down(a.dot(gpu.up(given["b"])))),
        "dense": np.ascontiguousarray(gpu.down(a.toarray())),
    }


def memory(size):
    return (size["n"] + 50) ** 2 * 8 * 3
