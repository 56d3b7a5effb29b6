"""Arrays go to jax and back by DLPack."""

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.common import stranger
from gpuenv.smoke.payload.gpu import Skip

TITLE = "with jax"
LEVELS = {"normal": {"n": 50021}}
NEEDS = ["module:jax"]
HOST = 0.1  # few numbers
TOLERANCE = "exact: whole numbers of 32 bits, which is what jax computes in unless told otherwise"
# Else jax takes most of the memory at once (its documentation, GPU memory allocation).
ENVIRONMENT = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
SECONDS = {"normal": 120}
BY_ITSELF = """
import jax

(jax.numpy.arange(8) * 3 + 7).block_until_ready()
"""


def inputs(random, size):
    return {"x": random.integers(-(2**20), 2**20, size=size["n"], dtype=np.int32)}


def expect(given):
    return {"x": exact(given["x"] * 3 + 7)}


def run(gpu, given):
    return stranger.together("jax", BY_ITSELF, gpu.is_shared, lambda: _together(gpu, given))


def _together(gpu, given):
    import jax
    import jax.dlpack

    if jax.default_backend() != "gpu":
        raise Skip("this jax computes on %s: it may be a CPU-only build" % jax.default_backend())
    x = gpu.up(given["x"])
    gpu.cp.cuda.Device().synchronize()
    y = jax.dlpack.from_dlpack(x) * 3 + 7
    y.block_until_ready()
    return {"x": gpu.down(gpu.cp.from_dlpack(y))}


def memory(_):
    return 1 << 30
