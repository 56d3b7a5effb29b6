"""Checks that need no GPU: the imports, the libraries, the user, the kernel cache and NVRTC.

CuPy queries the device before it compiles, so NVRTC is called directly with CuPy's options for each compute capability.
"""

from __future__ import annotations

import importlib
import os
import platform
import tempfile
from typing import Any, Callable, Dict

from gpuenv.smoke.payload.failures import MOST_TEXT, first_line

Emit = Callable[[str, Any], None]
# The calls that load each library without a device.
LIBRARIES = (
    ("cublas", "cupy_backends.cuda.libs.cublas", "getVersion", (0,)),
    ("curand", "cupy_backends.cuda.libs.curand", "getVersion", ()),
    ("cufft", "cupy.cuda.cufft", "getVersion", ()),
    ("cusolver", "cupy_backends.cuda.libs.cusolver", "_getVersion", ()),
    ("cusparse", "cupy_backends.cuda.libs.cusparse", "createMatDescr", ()),
    ("nvrtc", "cupy_backends.cuda.libs.nvrtc", "getVersion", ()),
)
# Libraries that CuPy works without, and the modules that need them.
OPTIONAL = (
    ("nccl", "cupy.cuda.nccl", "get_version", ()),
    ("cutensor", "cupy_backends.cuda.libs.cutensor", "get_version", ()),
)
OPTIONAL_MODULES = {"cutensor": "cupyx.cutensor"}
MODULES = (
    "cupy",
    "cupyx",
    "cupyx.scipy.sparse",
    "cupy.linalg",
    "cupy.fft",
    "cupy.random",
    "cupy.cuda.thrust",
    "cupy.cuda.cub",
)
SOURCE = """
#include <cupy/complex.cuh>
#include <cupy/carray.cuh>
#include <cuda_fp16.h>
extern "C" __global__ void gpuenv_groundwork(float *x, __half *y) { y[threadIdx.x] = __float2half(x[threadIdx.x]); }
"""


def groundwork(request: Dict[str, Any], emit: Emit) -> None:
    """Reports each check.

    ``request`` has the ``capabilities`` to compile for, such as 9.0, and the optional ``libraries`` to load.
    """
    wanted = request.get("libraries", [])
    emit("uid", os.getuid())
    versions = {"python": platform.python_version()}
    for name in MODULES + tuple(OPTIONAL_MODULES[name] for name in wanted if name in OPTIONAL_MODULES):
        try:
            module = importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - the user's package: any exception is an answer
            emit("import." + name, first_line(error))
            continue
        emit("import." + name, None)
        if name == "cupy":
            versions["cupy"] = module.__version__
            versions["numpy"] = importlib.import_module("numpy").__version__
    emit("versions", versions)
    for name, module, function, arguments in LIBRARIES + tuple(row for row in OPTIONAL if row[0] in wanted):
        emit("library." + name, _library(name, module, function, arguments))
    folder, error = os.environ.get("CUPY_CACHE_DIR") or os.path.expanduser("~/.cupy/kernel_cache"), None
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except OSError as failure:
        error = str(failure)
    emit("cache", {"folder": folder, "error": error})
    for capability in request.get("capabilities", []):
        emit("compiled." + capability, _compiled(capability))


def _library(name: str, module: str, function: str, arguments: Any) -> Dict[str, Any]:
    """Returns the version that a library reports, the file it was loaded from, and the error."""
    reported, error = None, None
    package, _, last = module.rpartition(".")
    try:
        try:  # as in CuPy: CuPy 14 loads a library on attribute access of the package
            found = getattr(importlib.import_module(package), last)
        except AttributeError:
            found = importlib.import_module(module)
        answer = getattr(found, function)(*arguments)
        reported = ".".join(str(part) for part in answer) if isinstance(answer, tuple) else str(answer)
    except Exception as failure:  # noqa: BLE001 - as above
        error = first_line(failure)
    with open("/proc/self/maps") as file:
        mapped = {line.split(None, 5)[5].strip() for line in file if "/" in line}
    loaded = sorted(path for path in mapped if os.path.basename(path).startswith("lib%s.so" % name))
    version = None if name == "cusparse" else reported
    return {"version": version, "path": loaded[0] if loaded else None, "error": error}


def _compiled(capability: str) -> Any:
    """Returns None if NVRTC compiles machine code for a compute capability; else its message."""
    try:
        from cupy.cuda import compiler, nvrtc

        # The architecture that CuPy requests on such a GPU, limited by its own maximum.
        wanted = capability.replace(".", "")
        cap = str(getattr(compiler, "_get_max_compute_capability", lambda: wanted)())
        options = _options() + ("-arch=sm_" + min(wanted, cap, key=int),)
        program = nvrtc.createProgram(SOURCE, "groundwork.cu", (), ())
        try:
            nvrtc.compileProgram(program, options)
            code = nvrtc.getCUBIN(program)
        except nvrtc.NVRTCError:
            return _first_text(nvrtc.getProgramLog(program))
        finally:
            nvrtc.destroyProgram(program)
    except Exception as error:  # noqa: BLE001 - as above
        return first_line(error)
    return None if code[:4] == b"\x7fELF" else "NVRTC produced no machine code"


def _options() -> Any:
    from cupy._core import core

    assemble = getattr(core, "assemble_cupy_compiler_options", None)
    if assemble is not None:
        return assemble(())
    import cupy

    folders = [os.path.join(os.path.dirname(cupy.__file__), "_core", "include")]
    folders += [os.path.join(path, "include") for path in [cupy.cuda.get_cuda_path()] if path]
    return tuple("-I" + folder for folder in folders) + ("--std=c++11",)


def _first_text(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip(" =\t")]
    return lines[0][:MOST_TEXT] if lines else ""
