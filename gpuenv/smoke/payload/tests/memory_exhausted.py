"""Asking for more than the GPU has: refused with OutOfMemoryError, and the next allocation works."""

import os

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.gpu import Skip
from gpuenv.smoke.payload.troubles import lack_of_memory

TITLE = "more than there is: refused, and recovered from"
LEVELS = {"normal": {"n": 500009}}
TOLERANCE = "exact: 1 where the allocation was refused, 0 where others were blamed for it, and whole numbers"
WSL = "/dev/dxg"


def inputs(random, size):
    return {"x": random.integers(0, 2**40, size=size["n"], dtype=np.int64)}


def expect(given):
    return {"refused": exact(np.array([1])), "blamed_others": exact(np.array([0])), "x": exact(given["x"] - 5)}


def obstacle(*, integrated: bool, wsl: bool) -> str:
    """Why nothing is asked for beyond what there is; empty where it can be."""
    if integrated:
        return "this GPU has no memory of its own: beyond what there is, the whole machine may stand still"
    return "this GPU has no bound in WSL: Windows lends the host's memory to its programs" if wsl else ""


def run(gpu, given):
    hindered = obstacle(integrated=gpu.is_integrated(), wsl=os.path.exists(WSL))
    if hindered:
        raise Skip(hindered)
    cp, refused, kept, blamed = gpu.cp, 0, None, 0
    wanted = gpu.total + (1 << 30)
    try:
        kept = cp.empty(wanted, dtype=np.uint8)
    except cp.cuda.memory.OutOfMemoryError:
        refused = 1
        free = int(gpu.runtime.memGetInfo()[0])
        trouble = lack_of_memory(wanted, gpu.pool.total_bytes(), free, gpu.total, 0)
        blamed = int(trouble.trouble == "memory-held-by-others")
    del kept
    gpu.pool.free_all_blocks()
    return {
        "refused": np.array([refused]),
        "blamed_others": np.array([blamed]),
        "x": gpu.down(gpu.up(given["x"]) - 5),
    }
