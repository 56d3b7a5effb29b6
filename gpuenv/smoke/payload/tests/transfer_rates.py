"""Rates of copies: host to device and back, pageable and pinned, and within the device."""

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.common.host import pinned as pin
from gpuenv.smoke.payload.common.host import stay_near

TITLE = "rates of copies"
LEVELS = {"normal": {"mib": 256}, "deep": {"mib": 1024}}
TOLERANCE = "exact: whole numbers"
ALONE = ["normal", "deep"]
SHRINKS = "mib"


def inputs(random, size):
    return {"x": random.integers(0, 2**62, size=(size["mib"] << 20) // 8, dtype=np.int64)}


def expect(given):
    names = ("pageable", "pinned", "device")
    return {name: exact(given["x"]) for name in names}


def run(gpu, given):
    stay_near(gpu)
    cp, host = gpu.cp, given["x"]
    there, other = cp.zeros(host.shape, dtype=host.dtype), cp.zeros(host.shape, dtype=host.dtype)
    pageable, pinned = np.zeros_like(host), pin(host.size, host.dtype)
    pinned[...] = host[: pinned.size]
    part, got, size, less = there[: pinned.size], {}, float(host.nbytes), float(pinned.nbytes)

    gpu.measure("h2d_pageable", size / gpu.best(lambda: there.set(host)), "B/s")
    got["pageable"] = gpu.down(there)
    part.fill(0)
    gpu.rate("h2d_pinned", less, less, gpu.best(lambda: part.set(pinned)), "B/s")
    got["pinned"] = gpu.down(there)
    gpu.measure("d2h_pageable", size / gpu.best(lambda: there.get(out=pageable)), "B/s")
    pinned[...] = 0
    gpu.rate("d2h_pinned", less, less, gpu.best(lambda: part.get(out=pinned)), "B/s")
    # A copy reads and writes every byte. 3: device to device.
    to, of, stream = other.data.ptr, there.data.ptr, cp.cuda.get_current_stream().ptr
    took = gpu.steady(lambda: gpu.runtime.memcpyAsync(to, of, there.nbytes, 3, stream))
    gpu.rate("device_copy", 2.0 * size, size, took, "B/s")
    got["device"] = gpu.down(other)
    if not (np.array_equal(pageable, host) and np.array_equal(pinned, host[: pinned.size])):
        raise ValueError("what was copied back while it was measured is not what was sent")
    return got


def memory(size):
    return (size["mib"] << 20) * 3
