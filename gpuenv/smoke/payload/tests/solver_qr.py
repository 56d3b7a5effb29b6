"""The QR decomposition: the factors multiplied again, Q orthogonal, R triangular."""

import numpy as np

from gpuenv.smoke.payload.answers import UNIT, gamma, near

TITLE = "QR decomposition"
LEVELS = {"normal": {"n": 150}, "deep": {"n": 900}}
TOLERANCE = "Householder's method is backward stable: gamma(40 n) |A|_2; what must be unity errs by gamma(40 n)"
SHRINKS = "n"


def inputs(random, size):
    n = size["n"]
    return {"a": random.standard_normal((n + 30, n))}


def expect(given):
    a = given["a"]
    bound = gamma(40 * a.shape[0], UNIT["d"])
    # The rows of R are determined but for their signs.
    r = np.linalg.qr(a, mode="r")
    return {
        "product": near(a, bound * float(np.linalg.norm(a, 2)), "d"),
        "orthogonal": near(np.eye(a.shape[1]), bound, "d"),
        "diagonal": near(np.abs(np.diag(r)), 64 * bound * float(np.linalg.norm(a, 2)), "d"),
    }


def run(gpu, given):
    q, r = gpu.cp.linalg.qr(gpu.up(given["a"]))
    q, r = gpu.down(q), gpu.down(r)
    return {"product": q @ np.triu(r), "orthogonal": q.T @ q, "diagonal": np.abs(np.diag(r))}


def memory(size):
    return size["n"] ** 2 * 8 * 20
