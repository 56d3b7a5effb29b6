"""The default streams: the legacy one waits for blocking streams, the per-thread one works beside it."""

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.common import delay

TITLE = "null stream and per-thread default stream"
LEVELS = {"normal": {"rounds": 10}, "deep": {"rounds": 100}}
TOLERANCE = "exact: whole numbers"
KERNELS = delay.KERNELS
# With 1, CuPy takes the per-thread stream wherever the null stream is asked for.
ENVIRONMENT = {**delay.ENVIRONMENT, "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM": "0"}
N = 1024


def inputs(random, size):
    return {"delays": random.uniform(0.001, 0.004, size=size["rounds"]), "start": int(random.integers(1, 1000))}


def expect(given):
    rounds, start = given["delays"].size, given["start"]
    seen = np.stack([delay.filled(N, start + number) for number in range(rounds)])
    return {"null": exact(seen), "per_thread": exact(seen)}


def run(gpu, given):
    """The null stream synchronises with blocking streams, the per-thread one likewise with the null stream.

    CUDA Runtime API, Stream synchronization behavior.
    """
    cp = gpu.cp
    blocking = cp.cuda.Stream(non_blocking=False)
    return {
        "null": gpu.down(_rounds(gpu, given, blocking, cp.cuda.Stream.null)),
        "per_thread": gpu.down(_rounds(gpu, given, cp.cuda.Stream.ptds, cp.cuda.Stream.null)),
    }


def _rounds(gpu, given, before, after):
    cp, rounds = gpu.cp, given["delays"].size
    x, seen = cp.full(N, -1, dtype=np.int32), cp.full((rounds, N), -1, dtype=np.int32)
    fill, take = delay.kernels(gpu)
    cp.cuda.Device().synchronize()
    for number, seconds in enumerate(given["delays"]):
        with before:
            delay.produce(fill, x, given["start"] + number, seconds)
        with after:
            delay.consume(take, x, seen[number])
    cp.cuda.Device().synchronize()
    return seen
