"""The threshold of a real cudart: the lowest CUDA level of a driver that it accepts, tried against a stub libcuda."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from gpuenv.model.numbers import whole_number
from gpuenv.model.versions import CudaVersion
from gpuenv.probe.children import Ending, run_child

_PATIENCE = 120.0
_INSUFFICIENT = 35  # cudaErrorInsufficientDriver
_NO_DEVICE = 100  # cudaErrorNoDevice: the driver was accepted, and has no GPU
_ASK = """
import ctypes, sys
count = ctypes.c_int()
print(ctypes.CDLL(sys.argv[1]).cudaGetDeviceCount(ctypes.byref(count)))
"""


def compile_stub(folder: Path, environment: Mapping[str, str]) -> bool:
    """Makes the stub libcuda; whether there was a compiler for it."""
    compiler = shlex.split(environment.get("CC", "cc"))
    if not compiler or shutil.which(compiler[0], path=environment.get("PATH")) is None:
        return False
    source = Path(__file__).with_name("cudart_level.c")
    command = [*compiler, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(folder / "libcuda.so.1")]
    done = run_child([*command, str(source)], environment, time.monotonic() + _PATIENCE)
    return done.ending is Ending.EXITED and done.exit_code == 0


def threshold(
    runtime: Path, stub: Path, levels: Iterable[CudaVersion], environment: Mapping[str, str]
) -> CudaVersion | None:
    """The lowest level that is accepted; None where this cudart says nothing of the kind, as that of CUDA 11.

    Args:
        runtime: ``libcudart.so.12`` and the like.
        stub: the folder of the stub libcuda.
        levels: that are tried.
        environment: for the children.
    """
    found = {level: _asked(runtime, stub, level, environment) for level in sorted(levels)}
    accepted = [level for level, code in found.items() if code == _NO_DEVICE]
    refused = [level for level, code in found.items() if code == _INSUFFICIENT]
    if len(accepted) + len(refused) < len(found) or not accepted or (refused and max(refused) > min(accepted)):
        return None
    return min(accepted)


def _asked(runtime: Path, stub: Path, level: CudaVersion, environment: Mapping[str, str]) -> int | None:
    before = environment.get("LD_LIBRARY_PATH")
    variables = {
        **environment,
        "GPUENV_CUDA_LEVEL": str(level.major * 1000 + level.minor * 10),
        "LD_LIBRARY_PATH": os.pathsep.join([str(stub), *([before] if before else [])]),
    }
    command = [sys.executable, "-I", "-c", _ASK, str(runtime)]
    done = run_child(command, variables, time.monotonic() + _PATIENCE)
    return whole_number(done.stdout.strip()) if done.ending is Ending.EXITED else None
