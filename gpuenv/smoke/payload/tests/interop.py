"""Arrays that CuPy and other libraries share."""

import subprocess
import sys
from typing import Any, Callable, Optional

import numpy as np

from gpuenv.smoke.payload.cupy_device import Skip
from gpuenv.smoke.payload.expected import exact
from gpuenv.smoke.payload.failures import is_memory_error
from gpuenv.smoke.payload.tests import GpuTest

SECONDS = 40.0
# Files of the working folder take no part, as in the payload itself.
WITHOUT_WORKING_FOLDER = "import sys\nsys.path[:] = [entry for entry in sys.path if entry]\n"
MARK = "Traceback (most recent call last):"


class OtherLibrary:
    """An object of another library that has an array on the GPU."""

    def __init__(self, array):
        self.array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


class Interfaces(GpuTest):
    """DLPack and the CUDA array interface, within CuPy: the memory is shared, not copied."""

    TITLE = "DLPack and the CUDA array interface"
    LEVELS = {"quick": {"n": 5003}, "normal": {"n": 100003}}
    TOLERANCE = "exact: whole numbers; 1 where the memory is the same"

    def inputs(self, random, size):
        return {"x": random.integers(-(2**60), 2**60, size=(3, size["n"]), dtype=np.int64)}

    def expect(self, data):
        x = data["x"] + 1
        return {"dlpack": exact(x), "interface": exact(x[:, ::2].copy()), "shared": exact(np.array([1, 1]))}

    def run(self, gpu, data):
        cp, x = gpu.cp, gpu.to_device(data["x"])
        dlpack, interface = cp.from_dlpack(x), cp.asarray(OtherLibrary(x[:, ::2]))
        shared = [int(dlpack.data.ptr == x.data.ptr), int(interface.data.ptr == x.data.ptr)]
        x += 1  # what was only lent sees it
        return {"dlpack": gpu.to_host(dlpack), "interface": gpu.to_host(interface), "shared": np.array(shared)}


def run_with_library(name: str, program: str, is_shared: Callable[[], bool], work: Callable[[], Any]) -> Any:
    """What another library and CuPy make of something together.

    Args:
        name: of the library.
        program: what it does by itself, in Python.
        is_shared: whether the GPU lets in a second process; else the program would fail whatever the library can do.
        work: what both do.

    Raises:
        Skip: where the library fails by itself too, which says nothing of CuPy or of the GPU: a build without code for
            this GPU, a compiler that is not there, a NumPy that is too new for it.
    """
    try:
        return work()
    except (Skip, MemoryError):
        raise  # where there is no room, the library finds none by itself either
    except Exception as error:
        if is_memory_error(type(error).__name__, str(error)):
            raise
        complaint = error_without_cupy(program) if is_shared() else None
        if complaint is not None:
            raise Skip("%s does not work here by itself: %s" % (name, complaint)) from None
        raise


def error_without_cupy(program: str, seconds: float = SECONDS) -> Optional[str]:
    """What a program says that fails in a process of its own; None where it does not fail, or takes too long."""
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-B", "-c", WITHOUT_WORKING_FOLDER + program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return None
    if not done.returncode:
        return None
    # The line with the exception: the first after the last traceback that is not indented.
    words = done.stderr.decode("utf-8", "replace").rpartition(MARK)[2]
    ends = [line for line in words.splitlines() if line[:1].strip()]
    return ends[0][:300] if ends else "it ended with exit code %d" % done.returncode


class _Library(GpuTest):
    """CuPy and another library; where they fail together, the library is tried without CuPy."""

    BY_ITSELF = ""

    def run(self, gpu, data):
        name = type(self).__name__.lower()
        return run_with_library(name, self.BY_ITSELF, gpu.is_shared, lambda: self.share(gpu, data))


class Torch(_Library):
    """Arrays go to torch and back without a copy, and torch computes on them."""

    TITLE = "with torch"
    LEVELS = {"normal": {"n": 50021}}
    NEEDS = ["module:torch"]
    TOLERANCE = "exact: whole numbers; 1 where the memory is the same"
    SECONDS = {"normal": 120}
    BY_ITSELF = """
import torch

print((torch.arange(8, device="cuda") * 3 + 1).cpu())
"""

    def expect(self, data):
        x = data["x"]
        return {"there": exact(x * 3 + 1), "back": exact(x - 9), "shared": exact(np.array([1, 1]))}

    def share(self, gpu, data):
        import torch

        if not torch.cuda.is_available():
            raise Skip("this torch (%s) sees no GPU: it may be a CPU-only build" % torch.__version__)
        cp, x = gpu.cp, gpu.to_device(data["x"])
        tensor = torch.from_dlpack(x)
        shared = [int(tensor.data_ptr() == x.data.ptr)]
        # torch works on its own current stream, which need not be CuPy's.
        cp.cuda.Device().synchronize()
        there = cp.from_dlpack(tensor * 3 + 1)
        other = torch.as_tensor(data["x"], device="cuda") - 9
        torch.cuda.synchronize()
        back = cp.asarray(other)
        shared.append(int(back.data.ptr == other.data_ptr()))
        return {"there": gpu.to_host(there), "back": gpu.to_host(back), "shared": np.array(shared)}


class Numba(_Library):
    """A numba kernel works on an array of CuPy's."""

    TITLE = "with numba"
    LEVELS = {"normal": {"n": 50021}}
    NEEDS = ["module:numba"]
    TOLERANCE = "exact: whole numbers"
    SECONDS = {"normal": 120}
    BY_ITSELF = """
import numpy
from numba import cuda

@cuda.jit
def double(x):
    place = cuda.grid(1)
    if place < x.size:
        x[place] = x[place] * 2 + 5

double[1, 32](cuda.to_device(numpy.arange(8)))
cuda.synchronize()
"""

    def expect(self, data):
        return {"x": exact(data["x"] * 2 + 5)}

    def share(self, gpu, data):
        try:
            from numba import cuda
        except ImportError as error:
            raise Skip("numba has no CUDA here: %s" % error) from error
        if not cuda.is_available():
            raise Skip("numba finds no CUDA driver or toolkit here")

        @cuda.jit
        def double(x):
            place = cuda.grid(1)
            if place < x.size:
                x[place] = x[place] * 2 + 5

        x = gpu.to_device(data["x"])
        gpu.cp.cuda.Device().synchronize()
        double[(x.size + 127) // 128, 128](cuda.as_cuda_array(x))
        cuda.synchronize()
        return {"x": gpu.to_host(x)}


class Jax(_Library):
    """Arrays go to jax and back by DLPack."""

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

    def inputs(self, random, size):
        return {"x": random.integers(-(2**20), 2**20, size=size["n"], dtype=np.int32)}

    def expect(self, data):
        return {"x": exact(data["x"] * 3 + 7)}

    def share(self, gpu, data):
        import jax
        import jax.dlpack

        if jax.default_backend() != "gpu":
            raise Skip("this jax computes on %s: it may be a CPU-only build" % jax.default_backend())
        x = gpu.to_device(data["x"])
        gpu.cp.cuda.Device().synchronize()
        y = jax.dlpack.from_dlpack(x) * 3 + 7
        y.block_until_ready()
        return {"x": gpu.to_host(gpu.cp.from_dlpack(y))}

    def memory(self, size):
        return 1 << 30
