"""A kernel that writes where it may not: its launch succeeds, the synchronisation fails, and so does what follows."""

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.faults import KERNELS as FAULTY
from gpuenv.smoke.payload.tests.kernels_raw_kernel import SOURCE as GOOD

TITLE = "asynchronous errors surface at the synchronisation"
LEVELS = {"normal": {"n": 2053}}
TOLERANCE = "exact: 0 for the launch, 700 where the synchronisation and the call after it tell of the illegal access"
LOSES_CONTEXT = True
# With 1, a launch waits for its kernel and tells the error itself (CUDA C++ Programming Guide, CUDA Environment
# Variables), and a program whose kernel faults is ended with a core file (CUDA-GDB, GPU core dump support).
ENVIRONMENT = {"CUDA_LAUNCH_BLOCKING": "0", "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "0"}
KERNELS = {"gpuenv_illegal": FAULTY["gpuenv_illegal"]}
# cudaErrorIllegalAddress, and cudaErrorLaunchFailure, of which "common causes include dereferencing an invalid device
# pointer" (driver_types.h): it depends on the system. The second is what Jetson tells (jetson-utils, issue 215).
ILLEGAL_ACCESS = (700, 719)


def inputs(random, size):
    return {"x": random.integers(-(2**40), 2**40, size=size["n"], dtype=np.int64)}


def expect(given):
    x = given["x"]
    return {
        "before": exact((x << 1) - x + np.arange(x.size, dtype=np.int64)),
        "told": exact(np.array([0, 700, 700])),
    }


def run(gpu, given):
    cp, n = gpu.cp, given["x"].size
    x, z = gpu.up(given["x"]), cp.zeros(n, dtype=np.int64)
    gpu.compile(GOOD, "gpuenv_mix")(((n + 255) // 256,), (256,), (x, x, z, np.int64(n)))
    before = gpu.down(z)
    kernel = gpu.compile(KERNELS["gpuenv_illegal"], "gpuenv_illegal")
    kernel.compile()
    stream = cp.cuda.Stream(non_blocking=True)

    def launch():
        with stream:
            kernel((1,), (1,), (np.uint64(16),))

    steps = (launch, stream.synchronize, cp.cuda.runtime.deviceSynchronize)
    return {"before": before, "told": told([_code(gpu, step) for step in steps])}


def told(codes):
    """The first of its numbers for each that is an illegal access; any other as it is."""
    return np.array([ILLEGAL_ACCESS[0] if code in ILLEGAL_ACCESS else code for code in codes])


def _code(gpu, step):
    """The CUDA error that a step raises, or 0."""
    try:
        step()
    except (gpu.cp.cuda.runtime.CUDARuntimeError, gpu.cp.cuda.driver.CUDADriverError) as error:
        return error.status
    return 0
