"""Sparse CSR matrices of small integers, built without SciPy."""

import numpy as np

from gpuenv.smoke.payload.expected import exact
from gpuenv.smoke.payload.tests import PLAIN_REDUCTIONS, GpuTest


def random_csr(random, rows, columns, each):
    """Returns a matrix with ``each`` small integers per row in increasing columns, and some empty rows."""
    counts = np.where(random.random(rows) < 0.05, 0, each)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    picked = [np.sort(random.choice(columns, size=count, replace=False)) for count in counts]
    indices = np.concatenate(picked).astype(np.int32)
    data = random.integers(1, 10, size=indices.size).astype("d")
    return {"data": data, "indices": indices, "indptr": indptr, "shape": (rows, columns)}


def dense(matrix):
    """Returns the dense matrix."""
    full = np.zeros(matrix["shape"])
    rows = np.repeat(np.arange(matrix["shape"][0]), np.diff(matrix["indptr"]))
    full[rows, matrix["indices"]] = matrix["data"]
    return full


def on_gpu(gpu, matrix):
    """Returns the matrix as a CuPy object."""
    from cupyx.scipy import sparse

    parts = tuple(gpu.to_device(matrix[name]) for name in ("data", "indices", "indptr"))
    return sparse.csr_matrix(parts, shape=matrix["shape"])


class Matrix(GpuTest):
    """Sparse matrix times sparse matrix, sum and transpose."""

    TITLE = "CSR matrix times CSR matrix, sum and transpose"
    LEVELS = {"normal": {"n": 400}, "deep": {"n": 3000}}
    ENVIRONMENT = PLAIN_REDUCTIONS  # the check for duplicate elements is a reduction
    TOLERANCE = "exact: sums of products of small integers are exact in double precision, in any order"
    SHRINKS = "n"

    def inputs(self, random, size):
        n = size["n"]
        return {
            "a": random_csr(random, n, n + 20, 9),
            "b": random_csr(random, n + 20, n + 5, 7),
            "c": random_csr(random, n, n + 20, 5),
        }

    def expect(self, data):
        a, b, c = dense(data["a"]), dense(data["b"]), dense(data["c"])
        return {"product": exact(a @ b), "sum": exact(a + 2.0 * c), "transposed": exact(a.T.copy())}

    def run(self, gpu, data):
        a, b, c = (on_gpu(gpu, data[name]) for name in "abc")
        found = {"product": a.dot(b), "sum": a + c * 2.0, "transposed": a.T.tocsr()}
        return {name: np.ascontiguousarray(gpu.to_host(matrix.toarray())) for name, matrix in found.items()}

    def memory(self, size):
        return (size["n"] + 20) ** 2 * 8 * 6


class Vector(GpuTest):
    """Sparse matrix times vector and times dense matrix."""

    TITLE = "CSR matrix times vector and dense matrix"
    LEVELS = {"quick": {"n": 300}, "normal": {"n": 1200}, "deep": {"n": 5000}}
    ENVIRONMENT = PLAIN_REDUCTIONS  # the check for duplicate elements is a reduction
    TOLERANCE = "exact: sums of products of small integers are exact in double precision, in any order"
    SHRINKS = "n"

    def inputs(self, random, size):
        n = size["n"]
        return {
            "a": random_csr(random, n, n + 50, 12),
            "x": random.integers(-50, 50, size=n + 50).astype("d"),
            "b": random.integers(-50, 50, size=(n + 50, 7)).astype("d"),
        }

    def expect(self, data):
        a = dense(data["a"])
        return {"vector": exact(a @ data["x"]), "matrix": exact(a @ data["b"]), "dense": exact(a)}

    def run(self, gpu, data):
        a = on_gpu(gpu, data["a"])
        return {
            "vector": gpu.to_host(a.dot(gpu.to_device(data["x"]))),
            "matrix": np.ascontiguousarray(gpu.to_host(a.dot(gpu.to_device(data["b"])))),
            "dense": np.ascontiguousarray(gpu.to_host(a.toarray())),
        }

    def memory(self, size):
        return (size["n"] + 50) ** 2 * 8 * 3
