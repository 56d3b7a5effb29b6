"""Linear systems and least squares with a known solution."""

import numpy as np

from gpuenv.smoke.payload.answers import UNIT, gamma, near
from gpuenv.smoke.payload.common import plain

TITLE = "linear systems and least squares"
LEVELS = {"quick": {"n": 128}, "normal": {"n": 400}, "deep": {"n": 1500}}
HOST = 0.5  # two matrices: the GPU needs workspaces
ENVIRONMENT = plain.ENVIRONMENT  # the rank in lstsq is a reduction
TOLERANCE = (
    "the right-hand side is made from a known solution; the matrix has a condition number below 4 (rows off the"
    " diagonal sum to less than half of it), so solving errs by less than 64 gamma(n) max|x| with pivoting"
)
SHRINKS = "n"


def inputs(random, size):
    n = size["n"]
    full = random.uniform(-0.5 / n, 0.5 / n, size=(n, n)) + np.eye(n)[random.permutation(n)]
    tall = np.concatenate([full, random.uniform(-0.5 / n, 0.5 / n, size=(n // 2, n))])
    return {"full": full, "tall": tall, "x": random.standard_normal((n, 5))}


def expect(given):
    x = given["x"]
    bound = 64 * gamma(x.shape[0], UNIT["d"]) * float(np.abs(x).max())
    return {"solve": near(x, bound, "d"), "inverse": near(x, bound, "d"), "lstsq": near(x, 8 * bound, "d")}


def run(gpu, given):
    linalg = gpu.cp.linalg
    full, tall, x = gpu.up(given["full"]), gpu.up(given["tall"]), given["x"]
    side, long_side = gpu.up(given["full"] @ x), gpu.up(given["tall"] @ x)
    return {
        "solve": gpu.down(linalg.solve(full, side)),
        "inverse": gpu.down(linalg.inv(full) @ side),
        "lstsq": gpu.down(linalg.lstsq(tall, long_side, rcond=1e-12)[0]),
    }


def memory(size):
    return size["n"] ** 2 * 8 * 20
