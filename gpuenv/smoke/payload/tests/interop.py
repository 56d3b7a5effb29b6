"""Arrays that CuPy and other libraries share."""

import subprocess
import sys
from typing import Any, Callable, Optional

import numpy as np

from gpuenv.smoke.payload.cupy_device import Skip
from gpuenv.smoke.payload.expected import exact
from gpuenv.smoke.payload.failures import MOST_TEXT, is_memory_error
from gpuenv.smoke.payload.tests import GpuTest

SECONDS = 40.0
# Ignores the files of the working folder, like the payload.
WITHOUT_WORKING_FOLDER = "import sys\nsys.path[:] = [entry for entry in sys.path if entry]\n"
MARK = "Traceback (most recent call last):"


class OtherLibrary:
    """Another library's object with an array on the GPU."""

    def __init__(self, array):
        self.array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


class Interfaces(GpuTest):
    """DLPack and the CUDA array interface within CuPy share memory instead of copying."""

    TITLE = "DLPack and the CUDA array interface"
    LEVELS = {"quick": {"n": 5003}, "normal": {"n": 100003}}
    TOLERANCE = "exact: integers; 1 if the memory is shared"

    def inputs(self, random, size):
        return {"x": random.integers(-(2**60), 2**60, size=(3, size["n"]), dtype=np.int64)}

    def expect(self, data):
        x = data["x"] + 1
        return {"dlpack": exact(x), "interface": exact(x[:, ::2].copy()), "shared": exact(np.array([1, 1]))}

    def run(self, gpu, data):
        cp, x = gpu.cp, gpu.to_device(data["x"])
        dlpack, interface = cp.from_dlpack(x), cp.asarray(OtherLibrary(x[:, ::2]))
        shared = [int(dlpack.data.ptr == x.data.ptr), int(interface.data.ptr == x.data.ptr)]
        x += 1  # visible through both views
        return {"dlpack": gpu.to_host(dlpack), "interface": gpu.to_host(interface), "shared": np.array(shared)}


def run_with_library(name: str, program: str, is_shared: Callable[[], bool], work: Callable[[], Any]) -> Any:
    """Runs work that uses CuPy and another library; on failure, retries the library without CuPy, by ``program``.

    ``is_shared`` returns whether the GPU allows a second process: without one, the program would always fail.

    Raises:
        Skip: the library fails alone too, so neither CuPy nor the GPU is to blame: a build without code for this GPU, a
            missing compiler, a NumPy that is too new.
    """
    try:
        return work()
    except (Skip, MemoryError):
        raise  # without memory, the library would fail alone too
    except Exception as error:
        if is_memory_error(type(error).__name__, str(error)):
            raise
        message = error_without_cupy(program) if is_shared() else None
        if message is not None:
            raise Skip("%s does not work here even without CuPy: %s" % (name, message)) from None
        raise


def error_without_cupy(program: str, seconds: float = SECONDS) -> Optional[str]:
    """Runs a program in its own process and returns its error; None if it succeeds or takes too long."""
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
    # The line with the exception is the first unindented one after the last traceback.
    text = done.stderr.decode("utf-8", "replace").rpartition(MARK)[2]
    unindented = [line for line in text.splitlines() if line[:1].strip()]
    return unindented[0][:MOST_TEXT] if unindented else "it ended with exit code %d" % done.returncode


class _Library(GpuTest):
    """CuPy and another library; if they fail, the library is tried without CuPy."""

    STANDALONE = ""

    def run(self, gpu, data):
        name = type(self).__name__.lower()
        return run_with_library(name, self.STANDALONE, gpu.is_shared, lambda: self.share(gpu, data))


class Torch(_Library):
    """Passes arrays to torch and back without a copy; torch computes on them."""

    TITLE = "with torch"
    LEVELS = {"normal": {"n": 50021}}
    NEEDS = ["module:torch"]
    TOLERANCE = "exact: integers; 1 if the memory is shared"
    SECONDS = {"normal": 120}
    STANDALONE = """
import numpy
import torch

print((torch.as_tensor(numpy.arange(8), device="cuda") * 3 + 1).cpu())
"""

    def expect(self, data):
        x = data["x"]
        return {"result": exact(x * 3 + 1), "back": exact(x - 9), "shared": exact(np.array([1, 1]))}

    def share(self, gpu, data):
        import torch

        if not torch.cuda.is_available():
            raise Skip("torch %s finds no GPU: it may be a CPU-only build" % torch.__version__)
        cp, x = gpu.cp, gpu.to_device(data["x"])
        tensor = torch.from_dlpack(x)
        shared = [int(tensor.data_ptr() == x.data.ptr)]
        # torch uses its own current stream, which may differ from CuPy's.
        cp.cuda.Device().synchronize()
        result = cp.from_dlpack(tensor * 3 + 1)
        other = torch.as_tensor(data["x"], device="cuda") - 9
        torch.cuda.synchronize()
        back = cp.asarray(other)
        shared.append(int(back.data.ptr == other.data_ptr()))
        return {"result": gpu.to_host(result), "back": gpu.to_host(back), "shared": np.array(shared)}


class Numba(_Library):
    """Runs a numba kernel on a CuPy array."""

    TITLE = "with numba"
    LEVELS = {"normal": {"n": 50021}}
    NEEDS = ["module:numba"]
    TOLERANCE = "exact: integers"
    SECONDS = {"normal": 120}
    STANDALONE = """
import numpy
from numba import cuda

@cuda.jit
def double(x):
    index = cuda.grid(1)
    if index < x.size:
        x[index] = x[index] * 2 + 5

double[1, 32](cuda.to_device(numpy.arange(8)))
cuda.synchronize()
"""

    def expect(self, data):
        return {"x": exact(data["x"] * 2 + 5)}

    def share(self, gpu, data):
        try:
            from numba import cuda
        except ImportError as error:
            raise Skip("numba has no CUDA support here: %s" % error) from error
        if not cuda.is_available():
            raise Skip("numba finds no CUDA driver or toolkit here")

        @cuda.jit
        def double(x):
            index = cuda.grid(1)
            if index < x.size:
                x[index] = x[index] * 2 + 5

        x = gpu.to_device(data["x"])
        gpu.cp.cuda.Device().synchronize()
        double[(x.size + 127) // 128, 128](cuda.as_cuda_array(x))
        cuda.synchronize()
        return {"x": gpu.to_host(x)}


class Jax(_Library):
    """Passes arrays to jax and back through DLPack."""

    TITLE = "with jax"
    LEVELS = {"normal": {"n": 50021}}
    NEEDS = ["module:jax"]
    HOST = 0.1  # small arrays
    TOLERANCE = "exact: 32-bit integers, the default of jax"
    # By default jax allocates most of the memory at once (its documentation, GPU memory allocation).
    ENVIRONMENT = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    SECONDS = {"normal": 120}
    STANDALONE = """
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
            raise Skip("jax computes on %s: it may be a CPU-only build" % jax.default_backend())
        x = gpu.to_device(data["x"])
        gpu.cp.cuda.Device().synchronize()
        y = jax.dlpack.from_dlpack(x) * 3 + 7
        y.block_until_ready()
        return {"x": gpu.to_host(gpu.cp.from_dlpack(y))}

    def memory(self, size):
        return 1 << 30
