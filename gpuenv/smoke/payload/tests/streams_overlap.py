"""Copies run while a kernel computes: how much of the shorter one is hidden is measured, not demanded."""

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.common import delay
from gpuenv.smoke.payload.common.host import pinned as pin

TITLE = "copies that overlap with computing"
LEVELS = {"normal": {"mib": 64}, "deep": {"mib": 512}}
TOLERANCE = "exact: whole numbers; the overlap itself depends on the GPU's copy engines and is only measured"
ALONE = ["normal", "deep"]
SHRINKS = "mib"
KERNELS = delay.KERNELS
ENVIRONMENT = delay.ENVIRONMENT
N = 1024


def inputs(random, size):
    n = (size["mib"] << 20) // 8
    return {"x": random.integers(0, 2**62, size=n, dtype=np.int64), "start": int(random.integers(1, 1000))}


def expect(given):
    return {"copied": exact(given["x"]), "seen": exact(delay.filled(N, given["start"]))}


def run(gpu, given):
    cp, host = gpu.cp, given["x"]
    pinned = pin(host.size, host.dtype)
    pinned[...] = host[: pinned.size]
    there, x, y = cp.empty(host.shape, dtype=host.dtype), cp.zeros(N, dtype=np.int32), cp.zeros(N, dtype=np.int32)
    there.set(host)
    part = there[: pinned.size]
    part.fill(0)
    fill, take = delay.kernels(gpu)
    copier, worker = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)

    def copy():
        part.set(pinned, stream=copier)

    copy_time = gpu.best(copy)

    def compute():
        with worker:
            delay.produce(fill, x, given["start"], copy_time)

    def both():
        compute()
        copy()

    compute()
    compute_time, both_time = gpu.best(compute), gpu.best(both)
    hidden = (compute_time + copy_time - both_time) / min(compute_time, copy_time)
    gpu.measure("overlap", max(0.0, min(1.0, hidden)), "1")
    cp.cuda.Device().synchronize()
    delay.consume(take, x, y)
    return {"copied": gpu.down(there), "seen": gpu.down(y)}


def memory(size):
    return (size["mib"] << 20) * 2
