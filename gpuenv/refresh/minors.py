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
from gpuenv.refresh.releases import binary_source, libc_floor
from gpuenv.refresh.row_edits import Measurement, NewRow, RefreshContext, plain

_NOTE = "nvrtcGetSupportedArchs, and the .version of what it compiles"
_FIRST_AS_WHEELS = 11  # the first CUDA major version with wheels


def nvrtc_ranges(matrix: Matrix) -> Iterator[tuple[str, str]]:
    """Yields each NVRTC distribution with the range of its releases.

    Includes unknown CUDA major versions: from 13 on they share the distribution names.
    """
    majors = sorted(row.major for row in matrix.cuda_majors if row.major >= _FIRST_AS_WHEELS)
    for major in majors[:-1]:
        yield cuda_wheel("cuda-nvrtc", major), f">={major}.0,<{major + 1}"
    yield cuda_wheel("cuda-nvrtc", majors[-1]), f">={majors[-1]}.0"


def new_minors(index: Index, name: str, wanted: str, matrix: Matrix) -> list[tuple[str, str]]:
    """Returns an NVRTC distribution with the newest release of every unknown minor version in a range."""
    known = {row.cuda for row in matrix.cuda_minors}
    lowest = min(line.first_cuda for line in matrix.wheel_lines)
    found = []
    for version in index.unknown(name, wanted, [f"{cuda}.*" for cuda in known]):
        cuda = minor_of(version)
        if cuda >= lowest and cuda not in known:
            known.add(cuda)  # the newest release of a minor version comes first
            found.append((name, version))
    return found


def new_toolkits(matrix: Matrix, index: Index) -> tuple[str, ...]:
    """Returns the minor versions with a new toolkit metapackage on the index."""
    known = [f"{row.cuda}.*" for row in matrix.cuda_minors if row.toolkit_wheels]
    found = index.unknown("cuda-toolkit", ">=11.0", known)
    return tuple(dict.fromkeys(str(minor_of(version)) for version in found))


def minor_of(version: str) -> CudaVersion:
    """Returns 12.8 for 12.8.93."""
    major, minor = Version(version).release[:2]
    return CudaVersion(major, minor)


def minor_measurement(
    name: str, version: str, matrix: Matrix, toolkits: tuple[str, ...], context: RefreshContext
) -> Measurement:
    """Returns the measurement of one NVRTC and its cudart."""
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
            raise MeasureError(f"{file.name}: reports NVRTC {found.cuda}")
        if level is not None and level.major != cuda.major:
            raise MeasureError(f"{runtime[0] if runtime else cuda}: accepts a driver of CUDA {level}")
        row = {
            "cuda": cuda,
            # Documented facts are kept; refresh reads no documents.
            "linux": known and known.linux,
            "windows": known and known.windows,
            "capabilities": found.capabilities,
            "ptx": found.ptx,
            "toolkit_wheels": toolkit,
            "soname": found.soname,
            "builtins": found.builtins,
            "libc": f"glibc-{libc_floor(file, found.glibc)}",
            "toolkit_libc": known and known.toolkit_libc,
            "cudart": level,
            "driver_source": known and known.driver_source,
            "toolkit_source": known and known.toolkit_source,
            "source": key,
        }
        others = [runtime[1]] if level is not None and runtime else []
        note = f"{_NOTE}; the cudart against a stub libcuda" if others else _NOTE
        source = binary_source(file, context.today, note, others)
        return NewRow(f"CUDA {cuda}", key, source, plain(row), "cuda_minors", str(cuda), None)

    return Measurement(f"CUDA {cuda}", key, files, measure)


def _runtime(cuda: CudaVersion, context: RefreshContext) -> tuple[str, IndexFile] | None:
    """Returns the cudart of a minor version, if there is a stub to test it."""
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
    raise MeasureError(f"{name} {version}: has no wheel that runs on this machine (Linux {machine})")


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
_DEVICE_COUNT = """
import ctypes, sys
count = ctypes.c_int()
print(ctypes.CDLL(sys.argv[1]).cudaGetDeviceCount(ctypes.byref(count)))
"""


def compile_stub(folder: Path, environment: Mapping[str, str]) -> bool:
    """Builds the stub libcuda; returns False without a compiler."""
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
    """Returns the lowest accepted level; None if this cudart crashes, or if its answers have no single threshold.

    ``runtime`` is a file such as ``libcudart.so.12``, ``stub`` the folder of the stub libcuda.
    """
    found = {level: _device_count_status(runtime, stub, level, environment) for level in sorted(levels)}
    accepted = [level for level, code in found.items() if code == _NO_DEVICE]
    refused = [level for level, code in found.items() if code == _INSUFFICIENT]
    if len(accepted) + len(refused) < len(found) or not accepted or (refused and max(refused) > min(accepted)):
        return None
    return min(accepted)


def _device_count_status(runtime: Path, stub: Path, level: CudaVersion, environment: Mapping[str, str]) -> int | None:
    existing = environment.get("LD_LIBRARY_PATH")
    variables = {
        **environment,
        "GPUENV_CUDA_LEVEL": str(level.major * 1000 + level.minor * 10),
        "LD_LIBRARY_PATH": os.pathsep.join([str(stub), *([existing] if existing else [])]),
    }
    command = [sys.executable, "-I", "-c", _DEVICE_COUNT, str(runtime)]
    done = run_child(command, variables, time.monotonic() + _PATIENCE)
    return parse_integer(done.stdout.strip()) if done.ending is Ending.EXITED else None
