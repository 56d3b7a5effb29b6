"""What can be shown without a GPU: the imports, the libraries, the user, the kernel cache, and NVRTC.

CuPy's own way to compile asks for a device first, so NVRTC is called with CuPy's options for each compute capability.
"""

from __future__ import annotations

import importlib
import os
import platform
import tempfile
from typing import Any, Callable, Dict

Tell = Callable[[str, Any], None]
# What loads each library; without a device.
LIBRARIES = (
    ("cublas", "cupy_backends.cuda.libs.cublas", "getVersion", (0,)),
    ("curand", "cupy_backends.cuda.libs.curand", "getVersion", ()),
    ("cufft", "cupy.cuda.cufft", "getVersion", ()),
    ("cusolver", "cupy_backends.cuda.libs.cusolver", "_getVersion", ()),
    ("cusparse", "cupy_backends.cuda.libs.cusparse", "createMatDescr", ()),
    ("nvrtc", "cupy_backends.cuda.libs.nvrtc", "getVersion", ()),
)
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


def groundwork(order: Dict[str, Any], tell: Tell) -> None:
    """Tells each of them; ``order`` has the ``capabilities`` to compile for, such as 9.0."""
    tell("uid", os.getuid())
    versions = {"python": platform.python_version()}
    for name in MODULES:
        try:
            module = importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - someone else's package: whatever it raises is an answer
            tell("import." + name, _first_line(error))
            continue
        tell("import." + name, None)
        if name == "cupy":
            versions["cupy"] = module.__version__
            versions["numpy"] = importlib.import_module("numpy").__version__
    tell("versions", versions)
    for name, module, function, arguments in LIBRARIES:
        tell("library." + name, _library(name, module, function, arguments))
    # The folder of the kernel cache, and why nothing can be written there.
    folder, error = os.environ.get("CUPY_CACHE_DIR") or os.path.expanduser("~/.cupy/kernel_cache"), None
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except OSError as trouble:
        error = str(trouble)
    tell("cache", {"folder": folder, "error": error})
    for capability in order.get("capabilities", []):
        tell("compiled." + capability, _compiled(capability))


def _library(name: str, module: str, function: str, arguments: Any) -> Dict[str, Any]:
    """Its version as it says itself, the file it was loaded from, and what went wrong."""
    told, error = None, None
    package, _, last = module.rpartition(".")
    try:
        try:  # as CuPy's own code gets it: CuPy 14 loads a library when its module is asked of the package
            found = getattr(importlib.import_module(package), last)
        except AttributeError:
            found = importlib.import_module(module)
        said = getattr(found, function)(*arguments)
        told = ".".join(str(part) for part in said) if isinstance(said, tuple) else str(said)
    except Exception as trouble:  # noqa: BLE001 - as above
        error = _first_line(trouble)
    with open("/proc/self/maps") as file:
        mapped = {line.split(None, 5)[5].strip() for line in file if "/" in line}
    loaded = sorted(path for path in mapped if os.path.basename(path).startswith("lib%s.so" % name))
    version = None if name == "cusparse" else told
    return {"version": version, "path": loaded[0] if loaded else None, "error": error}


def _compiled(capability: str) -> Any:
    """None where NVRTC made machine code for it; else what it said."""
    try:
        from cupy.cuda import compiler, nvrtc

        # What CuPy would ask NVRTC for on such a GPU: its own cap, where that is lower.
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
        return _first_line(error)
    return None if code[:4] == b"\x7fELF" else "no machine code came of it"


def _options() -> Any:
    from cupy._core import core

    assemble = getattr(core, "assemble_cupy_compiler_options", None)
    if assemble is not None:
        return assemble(())
    import cupy

    folders = [os.path.join(os.path.dirname(cupy.__file__), "_core", "include")]
    folders += [os.path.join(path, "include") for path in [cupy.cuda.get_cuda_path()] if path]
    return tuple("-I" + folder for folder in folders) + ("--std=c++11",)


def _first_line(error: Exception) -> str:
    return _first_text(str(error)) or type(error).__name__


def _first_text(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip(" =\t")]
    return lines[0][:300] if lines else ""
