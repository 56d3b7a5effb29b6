"""Arrays go to torch and back without a copy, and torch computes on them."""

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.common import stranger
from gpuenv.smoke.payload.gpu import Skip

TITLE = "with torch"
LEVELS = {"normal": {"n": 50021}}
NEEDS = ["module:torch"]
TOLERANCE = "exact: whole numbers; 1 where the memory is the same"
SECONDS = {"normal": 120}
BY_ITSELF = """
import torch

print((torch.arange(8, device="cuda") * 3 + 1).cpu())
"""


def inputs(random, size):
    return {"x": random.integers(-(2**40), 2**40, size=size["n"], dtype=np.int64)}


def expect(given):
    return {"there": exact(given["x"] * 3 + 1), "back": exact(given["x"] - 9), "shared": exact(np.array([1, 1]))}


def run(gpu, given):
    return stranger.together("torch", BY_ITSELF, gpu.is_shared, lambda: _together(gpu, given))


def _together(gpu, given):
    import torch

    if not torch.cuda.is_available():
        raise Skip("this torch (%s) sees no GPU: it may be a CPU-only build" % torch.__version__)
    cp, x = gpu.cp, gpu.up(given["x"])
    tensor = torch.from_dlpack(x)
    shared = [int(tensor.data_ptr() == x.data.ptr)]
    # torch works on its own current stream, which need not be CuPy's.
    cp.cuda.Device().synchronize()
    there = cp.from_dlpack(tensor * 3 + 1)
    other = torch.as_tensor(given["x"], device="cuda") - 9
    torch.cuda.synchronize()
    back = cp.asarray(other)
    shared.append(int(back.data.ptr == other.data_ptr()))
    return {"there": gpu.down(there), "back": gpu.down(back), "shared": np.array(shared)}
