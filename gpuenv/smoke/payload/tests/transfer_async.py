"""A copy back on a stream, behind slow work, into pinned memory: right once the stream was waited for."""

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.common import delay
from gpuenv.smoke.payload.common.host import pinned as pin

TITLE = "asynchronous copies with synchronisation"
LEVELS = {"normal": {"rounds": 10}, "deep": {"rounds": 100}}
TOLERANCE = "exact: whole numbers; a copy that is read too early holds those of the round before"
KERNELS = delay.KERNELS
ENVIRONMENT = delay.ENVIRONMENT
N = 4096


def inputs(random, size):
    return {"delays": random.uniform(0.002, 0.006, size=size["rounds"]), "start": int(random.integers(1, 1000))}


def expect(given):
    rounds, start = given["delays"].size, given["start"]
    seen = np.stack([start + number + np.arange(N, dtype=np.int32) for number in range(rounds)])
    return {"seen": exact(seen.astype(np.int32)), "last": exact(seen[-1].astype(np.int32))}


def run(gpu, given):
    cp, rounds = gpu.cp, given["delays"].size
    stream = cp.cuda.Stream(non_blocking=True)
    x = cp.full(N, -1, dtype=np.int32)
    pinned = pin(N, np.int32)
    pinned[...] = -1
    seen = np.full((rounds, N), -1, dtype=np.int32)
    fill, _ = delay.kernels(gpu)
    cp.cuda.Device().synchronize()
    for number, seconds in enumerate(given["delays"]):
        with stream:
            delay.produce(fill, x, given["start"] + number, seconds)
            # By the runtime: ndarray.get waits for the stream itself from CuPy 13 on.
            gpu.runtime.memcpyAsync(pinned.ctypes.data, x.data.ptr, x.nbytes, 2, stream.ptr)  # 2: device to host
        gpu.settle(stream)
        seen[number] = pinned
    stream.synchronize()
    return {"seen": seen, "last": gpu.down(x)}
