"""Eigenvalues and eigenvectors of a symmetric matrix that is made from known ones, and Cholesky's factor."""

import numpy as np

from gpuenv.smoke.payload.answers import UNIT, gamma, near

TITLE = "eigenvalues, eigenvectors and Cholesky's factor"
LEVELS = {"normal": {"n": 130}, "deep": {"n": 700}}
TOLERANCE = "backward stable: every value within gamma(40 n) |A|_2 (Weyl), doubled since A itself was rounded"
SHRINKS = "n"


def inputs(random, size):
    n = size["n"]
    values = np.sort(random.uniform(1.0, 3.0, size=n))
    q = np.linalg.qr(random.standard_normal((n, n)))[0]
    a = (q * values) @ q.T
    return {"a": (a + a.T) / 2, "values": values}


def expect(given):
    a, values = given["a"], given["values"]
    bound = 2 * gamma(40 * values.size, UNIT["d"]) * float(values[-1])
    return {
        "values": near(values, bound, "d"),
        "product": near(a, bound, "d"),
        # The factor's error is the matrix's, times the condition number, which is at most 3.
        "factor": near(np.linalg.cholesky(a), 8 * bound, "d"),
    }


def run(gpu, given):
    linalg, a = gpu.cp.linalg, gpu.up(given["a"])
    values, vectors = linalg.eigh(a)
    values, vectors = gpu.down(values), gpu.down(vectors)
    return {
        "values": values,
        "product": (vectors * values) @ vectors.T,
        "factor": np.tril(gpu.down(linalg.cholesky(a))),
    }


def memory(size):
    return size["n"] ** 2 * 8 * 20
