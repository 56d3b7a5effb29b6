"""Sparse matrix times sparse matrix, sum and transpose."""

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.common import plain
from gpuenv.smoke.payload.common.sparse import dense, on_gpu, random_csr

TITLE = "CSR matrix times CSR matrix, sum and transpose"
LEVELS = {"normal": {"n": 400}, "deep": {"n": 3000}}
ENVIRONMENT = plain.ENVIRONMENT  # whether a matrix has every element once is a reduction
TOLERANCE = "exact: sums of products of small whole numbers are exact in double precision, in any order"
SHRINKS = "n"


def inputs(random, size):
    n = size["n"]
    return {
        "a": random_csr(random, n, n + 20, 9),
        "b": random_csr(random, n + 20, n + 5, 7),
        "c": random_csr(random, n, n + 20, 5),
    }


def expect(given):
    a, b, c = dense(given["a"]), dense(given["b"]), dense(given["c"])
    return {"product": exact(a @ b), "sum": exact(a + 2.0 * c), "transposed": exact(a.T.copy())}


def run(gpu, given):
    a, b, c = (on_gpu(gpu, given[name]) for name in "abc")
    found = {"product": a.dot(b), "sum": a + c * 2.0, "transposed": a.T.tocsr()}
    return {name: np.ascontiguousarray(gpu.down(matrix.toarray())) for name, matrix in found.items()}


def memory(size):
    return (size["n"] + 20) ** 2 * 8 * 6
