"""NCCL: a sum over all GPUs."""

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.gpu import Skip

TITLE = "a sum over all GPUs by NCCL"
LEVELS = {"normal": {"n": 100003}}
NEEDS = ["gpus:2"]
TOLERANCE = "exact: whole numbers"
SECONDS = {"normal": 120}
MOST = 16


def inputs(random, size):
    return {"x": random.integers(-(2**30), 2**30, size=(MOST, size["n"]), dtype=np.int64)}


def expect(given):
    # As many rows as there are GPUs are summed; the rest is added on the host, so that the answer is the same anywhere.
    return {"sum": exact(given["x"].sum(axis=0))}


def run(gpu, given):
    cp, x = gpu.cp, given["x"]
    try:
        from cupy.cuda import nccl
    except ImportError as error:
        raise Skip("NCCL is not installed: %s" % error) from error
    if not getattr(nccl, "available", True):
        raise Skip("NCCL is not installed, or not found by CuPy")
    count = min(gpu.runtime.getDeviceCount(), MOST)
    ranks = nccl.NcclCommunicator.initAll(list(range(count)))
    arrays, sums, streams = [], [], []
    for number in range(count):
        with cp.cuda.Device(number):
            streams.append(cp.cuda.Stream(non_blocking=True))
            arrays.append(gpu.up(x[number]))
            sums.append(cp.zeros(x.shape[1], dtype=np.int64))
            cp.cuda.Device(number).synchronize()
    nccl.groupStart()
    for number, rank in enumerate(ranks):
        with cp.cuda.Device(number):
            send, receive = arrays[number].data.ptr, sums[number].data.ptr
            rank.allReduce(send, receive, x.shape[1], nccl.NCCL_INT64, nccl.NCCL_SUM, streams[number].ptr)
    nccl.groupEnd()
    totals = []
    for number in range(count):
        with cp.cuda.Device(number):
            streams[number].synchronize()
            totals.append(gpu.down(sums[number]))
    if any(not np.array_equal(totals[0], total) for total in totals):
        raise ValueError("the GPUs do not agree on the sum")
    return {"sum": totals[0] + x[count:].sum(axis=0)}
