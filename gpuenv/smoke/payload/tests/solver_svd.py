"""The singular value decomposition: values against NumPy's, and the factors multiplied again."""

import numpy as np

from gpuenv.smoke.payload.answers import UNIT, gamma, near

TITLE = "singular value decomposition"
LEVELS = {"normal": {"n": 120}, "deep": {"n": 600}}
TOLERANCE = "a backward stable method errs by p(n) u |A|_2 in every value (Weyl) and in the product; p(n) = 40 n"
SHRINKS = "n"


def inputs(random, size):
    n = size["n"]
    return {"a": random.standard_normal((n + 20, n))}


def expect(given):
    a = given["a"]
    bound = gamma(40 * a.shape[0], UNIT["d"]) * float(np.linalg.norm(a, 2))
    return {
        "values": near(np.linalg.svd(a, compute_uv=False), bound, "d"),
        "product": near(a, bound, "d"),
        "orthogonal": near(np.eye(a.shape[1]), gamma(40 * a.shape[0], UNIT["d"]), "d"),
    }


def run(gpu, given):
    u, s, v = gpu.cp.linalg.svd(gpu.up(given["a"]), full_matrices=False)
    u, s, v = gpu.down(u), gpu.down(s), gpu.down(v)
    return {"values": s, "product": (u * s) @ v, "orthogonal": u.T @ u}


def memory(size):
    return size["n"] ** 2 * 8 * 20
