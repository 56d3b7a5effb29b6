"""Views that are not contiguous, Fortran order, broadcasts and no elements at all, both ways."""

import numpy as np

from gpuenv.smoke.payload.answers import exact

TITLE = "non-contiguous arrays and Fortran order"
LEVELS = {"normal": {"n": 120}, "deep": {"n": 900}}
TOLERANCE = "exact: whole numbers; 1 where the order in memory is the one asked for"
SHRINKS = "n"


def inputs(random, size):
    n = size["n"]
    return {"x": random.integers(-(2**60), 2**60, size=(n, n + 7, 3), dtype=np.int64)}


def _views(x):
    return {
        "stepped": x[::2, 1::3],
        "reversed": x[::-1, :, ::-1],
        "transposed": x.transpose(2, 0, 1),
        "inner": x[1:-1, 2:-3, 1],
        "none": x[:0],
    }


def expect(given):
    x = given["x"]
    host = {"up_" + name: exact(view.copy()) for name, view in _views(x).items()}
    device = {"down_" + name: exact(view.copy()) for name, view in _views(x).items()}
    return dict(host, orders=exact(np.array([1, 1, 1])), fortran=exact(x[..., 0].copy()), **device)


def run(gpu, given):
    cp, x = gpu.cp, given["x"]
    there = gpu.up(x)
    got = {"up_" + name: gpu.down(gpu.up(view)) for name, view in _views(x).items()}
    for name, view in _views(there).items():
        got["down_" + name] = gpu.down(view)
    fortran = cp.array(x[..., 0], order="F")
    back = cp.asnumpy(fortran, order="F")
    orders = [fortran.flags.f_contiguous, back.flags.f_contiguous, cp.asnumpy(fortran, order="C").flags.c_contiguous]
    got["fortran"] = gpu.down(fortran)
    got["orders"] = np.array([int(bool(flag)) for flag in orders])
    return got


def memory(size):
    return (size["n"] + 7) ** 2 * 3 * 8 * 4
