"""Sparse matrices in the CSR form, made without SciPy."""

from __future__ import annotations

import numpy as np


def random_csr(random, rows, columns, each):
    """``each`` small whole numbers a row, at increasing columns; an empty row now and then."""
    counts = np.where(random.random(rows) < 0.05, 0, each)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    picked = [np.sort(random.choice(columns, size=count, replace=False)) for count in counts]
    indices = np.concatenate(picked).astype(np.int32)
    data = random.integers(1, 10, size=indices.size).astype("d")
    return {"data": data, "indices": indices, "indptr": indptr, "shape": (rows, columns)}


def dense(matrix):
    """The same matrix with all its zeros."""
    full = np.zeros(matrix["shape"])
    rows = np.repeat(np.arange(matrix["shape"][0]), np.diff(matrix["indptr"]))
    full[rows, matrix["indices"]] = matrix["data"]
    return full


def on_gpu(gpu, matrix):
    """The matrix as CuPy holds it."""
    from cupyx.scipy import sparse

    parts = tuple(gpu.up(matrix[name]) for name in ("data", "indices", "indptr"))
    return sparse.csr_matrix(parts, shape=matrix["shape"])
