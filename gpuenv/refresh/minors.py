"""CUDA minors as rows: what an NVRTC answers here, and the lowest driver level that its cudart accepts."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.version import Version

from gpuenv.matrix.tables import Matrix
from gpuenv.model.nvidia import cuda_wheel
from gpuenv.model.strings import parse_integer
from gpuenv.model.versions import CudaVersion
from gpuenv.probe.children import Ending, run_child
from gpuenv.refresh.binaries import MeasureError, ask_nvrtc
from gpuenv.refresh.package_index import Index, IndexFile, Listing
from gpuenv.refresh.releases import libc_floor, source_text
from gpuenv.refresh.row_edits import Measurement, NewRow, RefreshContext, flow_mapping

_NOTE = "nvrtcGetSupportedArchs, and the .version of what it compiles"
_FIRST_AS_WHEELS = 11  # there are no CUDA wheels of an older major


def new_minors(matrix: Matrix, index: Index) -> Iterator[tuple[str, str]]:
    """Each distribution of NVRTC with the newest release of every minor that is not known.

    CUDA majors that the matrix does not know come too: from 13 on they share the names of the distributions.
    """
    majors = sorted(row.major for row in matrix.cuda_majors if row.major >= _FIRST_AS_WHEELS)
    for major in majors[:-1]:
        yield from _missing(index, cuda_wheel("cuda-nvrtc", major), f">={major}.0,<{major + 1}", matrix)
    yield from _missing(index, cuda_wheel("cuda-nvrtc", majors[-1]), f">={majors[-1]}.0", matrix)


def _missing(index: Index, name: str, wanted: str, matrix: Matrix) -> Iterator[tuple[str, str]]:
    known = {row.cuda for row in matrix.cuda_minors}
    lowest = min(line.first_cuda for line in matrix.wheel_lines)
    for version in index.unknown(name, wanted, [f"{cuda}.*" for cuda in known]):
        cuda = minor_of(version)
        if cuda >= lowest and cuda not in known:
            known.add(cuda)  # the newest release of a minor comes first
            yield name, version


def new_toolkits(matrix: Matrix, index: Index) -> tuple[str, ...]:
    """The minors in which the metapackage of the toolkit has come to the index."""
    known = [f"{row.cuda}.*" for row in matrix.cuda_minors if row.toolkit_wheels]
    found = index.unknown("cuda-toolkit", ">=11.0", known)
    return tuple(dict.fromkeys(str(minor_of(version)) for version in found))


def minor_of(version: str) -> CudaVersion:
    """12.8 of 12.8.93."""
    major, minor = Version(version).release[:2]
    return CudaVersion(major, minor)


def minor_measurement(
    name: str, version: str, matrix: Matrix, toolkits: tuple[str, ...], context: RefreshContext
) -> Measurement:
    """One NVRTC and its cudart."""
    cuda = minor_of(version)
    file = _for_this_machine(context.index.files(name, version), name, version)
    runtime = _runtime(cuda, context)
    files = (file, runtime[1]) if runtime else (file,)
    known = next((row for row in matrix.cuda_minors if row.cuda == cuda), None)
    toolkit = str(cuda) in toolkits or bool(known and known.toolkit_wheels)
    key = f"nvrtc-{cuda}"

    def measure() -> NewRow:
        with TemporaryDirectory(dir=context.scratch) as scratch:
            folder = Path(scratch)
            context.index.unpack(f"{name}=={version}", file, folder / "nvrtc")
            found = ask_nvrtc(folder / "nvrtc", context.environment)
            level = _threshold(runtime, folder / "cudart", context)
        if found.cuda != cuda:
            raise MeasureError(f"{file.name}: says that it is NVRTC {found.cuda}")
        if level is not None and level.major != cuda.major:
            raise MeasureError(f"{runtime[0] if runtime else cuda}: accepts a driver of CUDA {level}")
        row = {
            "cuda": cuda,
            # What documents say is kept; refresh reads none.
            "linux": known and known.linux,
            "windows": known and known.windows,
            "capabilities": found.capabilities,
            "ptx": found.ptx,
            "toolkit_wheels": toolkit,
            "soname": found.soname,
            "builtins": found.builtins,
            "libc": f"glibc-{libc_floor(file, found.glibc)}",
            "cudart": level,
            "driver_source": known and known.driver_source,
            "source": key,
        }
        tried = [runtime[1]] if level is not None and runtime else []
        note = f"{_NOTE}; the cudart against a stub libcuda" if tried else _NOTE
        source = source_text(file, context.today, note, tried)
        return NewRow(f"CUDA {cuda}", key, source, flow_mapping(row), "cuda_minors", str(cuda), None)

    return Measurement(f"CUDA {cuda}", key, files, measure)


def _runtime(cuda: CudaVersion, context: RefreshContext) -> tuple[str, IndexFile] | None:
    """The cudart of a minor, where there is a stub to try it against."""
    if context.stub is None:
        return None
    name = cuda_wheel("cuda-runtime", cuda.major)
    version = next(iter(context.index.unknown(name, f"=={cuda}.*", ())), None)
    if version is None:
        return None
    return f"{name}=={version}", _for_this_machine(context.index.files(name, version), name, version)


def _for_this_machine(listing: Listing, name: str, version: str) -> IndexFile:
    machine = platform.machine()
    for file in listing.files:
        if file.platform == f"linux-{machine}":
            return file
    raise MeasureError(f"{name} {version}: has no wheel that can be asked on this machine (Linux {machine})")


def _threshold(runtime: tuple[str, IndexFile] | None, folder: Path, context: RefreshContext) -> CudaVersion | None:
    if runtime is None or context.stub is None:
        return None
    context.index.unpack(*runtime, folder)
    libraries = sorted(folder.rglob("libcudart.so.*"))
    if len(libraries) != 1:
        raise MeasureError(f"{runtime[1].name}: expected one libcudart, found {len(libraries)}")
    return threshold(libraries[0], context.stub, context.levels, context.environment)


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
    return parse_integer(done.stdout.strip()) if done.ending is Ending.EXITED else None
