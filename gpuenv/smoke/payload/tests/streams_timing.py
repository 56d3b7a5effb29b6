"""Events measure the time that a kernel takes which waits for a known time."""

import numpy as np

from gpuenv.smoke.payload.answers import exact, near
from gpuenv.smoke.payload.common import delay

TITLE = "timing by events"
LEVELS = {"normal": {"milliseconds": 40}}
TOLERANCE = "from the time that the kernel waits to twice that: other work on the GPU may be let in between"
ALONE = ["normal", "deep"]
KERNELS = delay.KERNELS
ENVIRONMENT = delay.ENVIRONMENT
N = 512


def inputs(random, size):
    return {"milliseconds": float(size["milliseconds"]), "start": int(random.integers(1, 1000))}


def expect(given):
    wait = given["milliseconds"]
    return {
        "milliseconds": near(np.array(1.5 * wait), 0.51 * wait, "d"),
        "done": exact(np.array([0, 1])),
        "seen": exact(delay.filled(N, given["start"])),
    }


def run(gpu, given):
    cp = gpu.cp
    x, y = cp.full(N, -1, dtype=np.int32), cp.full(N, -1, dtype=np.int32)
    fill, take = delay.kernels(gpu)
    delay.produce(fill, x, 0, 0.001)  # the first launch loads the module
    start, end = cp.cuda.Event(), cp.cuda.Event()
    cp.cuda.Device().synchronize()
    start.record()
    delay.produce(fill, x, given["start"], given["milliseconds"] / 1000)
    end.record()
    done = [int(end.done)]
    end.synchronize()
    done.append(int(end.done))
    milliseconds = cp.cuda.get_elapsed_time(start, end)
    delay.consume(take, x, y)
    gpu.measure("launch_latency", _latency(gpu, take, x, y), "s")
    return {"milliseconds": np.array(float(milliseconds)), "done": np.array(done), "seen": gpu.down(y)}


def _latency(gpu, take, x, y):
    """Seconds from one launch of a tiny kernel to the next, as the host submits them."""
    rounds = 1000
    return gpu.best(lambda: [delay.consume(take, x, y) for _ in range(rounds)], rounds=3) / rounds
