"""Copies from one GPU to another, with the content checked, and an array of one used on the other."""

import numpy as np

from gpuenv.smoke.payload.answers import exact

TITLE = "peer copies, and an array of one GPU used on another"
LEVELS = {"normal": {"n": 1000003}, "deep": {"n": 30000001}}
NEEDS = ["gpus:2"]
TOLERANCE = "exact: whole numbers; an array of another GPU is refused, or used rightly where peer access is possible"
SHRINKS = "n"


def inputs(random, size):
    return {"x": random.integers(-(2**40), 2**40, size=size["n"], dtype=np.int64)}


def expect(given):
    x = given["x"]
    return {"copied": exact(x), "back": exact(x + 1), "raw": exact(x), "used": exact(x * 2)}


def run(gpu, given):
    cp, host = gpu.cp, given["x"]
    first, second = cp.cuda.Device(0), cp.cuda.Device(1)
    with first:
        x = gpu.up(host)
    first.synchronize()  # the default streams of two devices, one a thread, know nothing of each other
    with second:
        y = cp.asarray(x)  # CuPy copies what another device has
        raw = cp.zeros(host.shape, dtype=host.dtype)
        gpu.runtime.memcpyPeer(raw.data.ptr, 1, x.data.ptr, 0, x.nbytes)
        got = {"copied": gpu.down(y), "raw": gpu.down(raw)}
        y += 1
    second.synchronize()
    with first:
        got["back"] = gpu.down(cp.asarray(y))
    got["used"] = _used(gpu, x, second)
    gpu.measure("peer_access", gpu.runtime.deviceCanAccessPeer(0, 1), "1")
    return got


def _used(gpu, x, second):
    """Twice x, computed on the second GPU from the array on the first; by an explicit copy where that is refused."""
    cp = gpu.cp
    with second:
        try:
            return gpu.down(x * 2)
        except ValueError:  # Array device must be same as the current device
            return gpu.down(cp.asarray(x) * 2)


def memory(size):
    return size["n"] * 8 * 5
