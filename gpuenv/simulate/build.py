"""Compiles the stub NVIDIA driver and pretend CUDA libraries, and keeps them in the user's cache."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuenv.data import data_path
from gpuenv.files import user_cache
from gpuenv.model.nvidia import CUDA_LIBRARIES
from gpuenv.model.secrets import without_secrets
from gpuenv.probe.children import Ending, run_child

SOURCES = ("nvml.c", "cuda.c", "uname.c", "audit.c", "stub.c", "stub.h", "nvidia-smi")
DRIVER_VERSION = "580.95.05"
# Hidden: two stubs in one process must not bind to each other's internals.
FLAGS = ("-std=c11", "-O1", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden", "-shared")


_LIMIT = 120.0  # seconds for one file: a busy machine


class StubBuildError(RuntimeError):
    """The stub driver could not be compiled; the message says why, and what would help."""


@dataclass(frozen=True, slots=True)
class StubDriver:
    """Where the parts of a compiled stub driver lie.

    Attributes:
        folder: for LD_LIBRARY_PATH.
        nvml: ``libnvidia-ml.so.<version>``.
        cuda: ``libcuda.so.<version>``.
        uname: for LD_PRELOAD.
        audit: for LD_AUDIT, where the host's own driver is not to be found.
        nvidia_smi: its folder goes on PATH.
    """

    folder: Path
    nvml: Path
    cuda: Path
    uname: Path
    audit: Path
    nvidia_smi: Path


def build(destination: Path, *, driver_version: str = DRIVER_VERSION, extra_flags: Sequence[str] = ()) -> StubDriver:
    """Compiles everything into one folder; the version only names the files.

    Raises:
        StubBuildError: when there is no compiler, or it fails.
    """
    compiler = _compiler()
    destination.mkdir(parents=True, exist_ok=True)
    stub = built_in(destination, driver_version)
    flags = (*FLAGS, *extra_flags)
    _compile(compiler, (*flags, "-Wl,-soname,libnvidia-ml.so.1"), ("nvml.c", "stub.c"), stub.nvml)
    _compile(compiler, (*flags, "-Wl,-soname,libcuda.so.1"), ("cuda.c", "stub.c"), stub.cuda)
    _compile(compiler, (*flags, "-Wl,-soname,libgpuenv-uname.so"), ("uname.c", "stub.c"), stub.uname)
    _compile(compiler, (*flags, "-Wl,-soname,libgpuenv-audit.so"), ("audit.c",), stub.audit)
    _link(destination / "libnvidia-ml.so.1", stub.nvml)
    _link(destination / "libcuda.so.1", stub.cuda)
    _install_smi(stub.nvidia_smi)
    return stub


def built_in(folder: Path, driver_version: str = DRIVER_VERSION) -> StubDriver:
    """The parts of a stub driver that was, or shall be, compiled into a folder."""
    return StubDriver(
        folder=folder,
        nvml=folder / f"libnvidia-ml.so.{driver_version}",
        cuda=folder / f"libcuda.so.{driver_version}",
        uname=folder / "libgpuenv-uname.so",
        audit=folder / "libgpuenv-audit.so",
        nvidia_smi=folder / "nvidia-smi",
    )


def compile_library(source: Path, name: str, output: Path) -> None:
    """Makes a shared library out of one C file.

    Raises:
        StubBuildError: when there is no compiler, or it fails.
    """
    flags = ["-shared", "-fPIC", "-x", "c", str(source), f"-Wl,-soname,{name}", "-o", str(output)]
    _run([*_compiler(), *flags])


def lay_out(  # one switch for each part a machine may lack
    stub: StubDriver,
    folder: Path,
    driver_version: str,
    *,
    with_nvml: bool = True,
    with_cuda: bool = True,
    with_smi: bool = False,
) -> Path:
    """Makes one machine's driver folder out of a compiled stub, and answers it.

    Files are copied, so that a test may damage its own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for wanted, name, library in ((with_nvml, "libnvidia-ml.so", stub.nvml), (with_cuda, "libcuda.so", stub.cuda)):
        if wanted:
            real = folder / f"{name}.{driver_version}"
            shutil.copy2(library, real)
            _link(folder / f"{name}.1", real)
    if with_smi:
        _install_smi(folder / "nvidia-smi")
    return folder


def _compiler() -> tuple[str, ...]:
    named = os.environ.get("CC", "cc")
    compiler = tuple(shlex.split(named))
    if not compiler or shutil.which(compiler[0]) is None:
        raise StubBuildError(f"the stub driver needs a C compiler, and {named!r} is not there: install gcc or set CC")
    return compiler


def _compile(compiler: Sequence[str], flags: Sequence[str], sources: Sequence[str], output: Path) -> None:
    folder = data_path("native")
    _run([*compiler, *flags, "-o", str(output), *(str(folder / source) for source in sources)])


def _run(command: Sequence[str]) -> None:
    done = run_child(command, without_secrets(os.environ), time.monotonic() + _LIMIT)
    if done.ending is not Ending.EXITED or done.exit_code != 0:
        how = f"ended with {done.exit_code}" if done.ending is Ending.EXITED else done.ending.value
        raise StubBuildError(f"{shlex.join(command)}: {how}:\n{done.stderr or done.error or ''}".rstrip())


def _link(link: Path, target: Path) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(target.name)


def _install_smi(path: Path) -> None:
    shutil.copyfile(data_path("native") / "nvidia-smi", path)
    path.chmod(0o755)


NVRTC = "int nvrtcVersion(int *major, int *minor) {{ *major = {0}; *minor = {1}; return 0; }}\n"


def compile_toolkit(release: str, folder: Path) -> Path:
    """The folder with the libraries that CuPy loads of a CUDA release; compiled where they are not there yet.

    Args:
        release: such as ``12.4``.
        folder: where such folders are kept.

    Raises:
        StubBuildError: when there is no compiler, or it fails.
    """
    libraries = folder / f"cuda-{release}"
    if libraries.is_dir():
        return libraries
    libraries.mkdir(parents=True)
    major, minor = map(int, release.split("."))
    nvrtc = folder / f"nvrtc-{release}.c"
    nvrtc.write_text(NVRTC.format(major, minor), encoding="utf-8")
    for library in CUDA_LIBRARIES[major]:
        source = nvrtc if library.name == "nvrtc" else Path(os.devnull)
        compile_library(source, library.soname, libraries / library.soname)
    return libraries


Announce = Callable[[str], None]


def cache_folder(environment: Mapping[str, str]) -> Path | None:
    """Where all that is compiled is kept, by what it was compiled of; None where the user has no such place."""
    cache = user_cache(environment)
    if cache is None:
        return None
    sources = data_path("native")
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update((sources / name).read_bytes())
    by = (sys.platform, os.uname().machine, environment.get("CC", ""), FLAGS, NVRTC, CUDA_LIBRARIES)
    digest.update(repr(by).encode())
    return cache / f"stub-{digest.hexdigest()[:16]}"


def kept_stub(cache: Path | None, folder: Path, announce: Announce) -> StubDriver:
    """The stub driver from the cache, compiled into it the first time; into the run's own folder where there is none.

    Raises:
        StubBuildError: when there is no compiler, or it fails.
    """
    if cache is not None:
        stub = built_in(cache)
        if all(part.is_file() for part in (stub.nvml, stub.cuda, stub.uname, stub.audit, stub.nvidia_smi)):
            return stub
    announce("compiling the stub driver, once")
    made = build(folder / "stub")
    if cache is not None:
        _keep(made.folder, cache)
    return made


def kept_toolkit(release: str, cache: Path | None, folder: Path) -> Path:
    """The folder with the libraries of a CUDA release, from the cache or compiled; it is kept next to the stub driver.

    Raises:
        StubBuildError: when there is no compiler, or it fails.
    """
    place = None if cache is None else cache / f"cuda-{release}"
    libraries = CUDA_LIBRARIES[int(release.partition(".")[0])]
    if place is not None and all((place / library.soname).is_file() for library in libraries):
        return place
    made = compile_toolkit(release, folder)
    if place is not None:
        _keep(made, place)
    return made


def _keep(made: Path, place: Path) -> None:
    """Copies a folder into the cache, where it is whole or not there; one that cannot be written costs a moment."""
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=".stub-", dir=place.parent))
        try:
            shutil.copytree(made, part / "kept", symlinks=True)
            shutil.rmtree(place, ignore_errors=True)  # a part of it may have been removed
            (part / "kept").rename(place)
        finally:
            shutil.rmtree(part, ignore_errors=True)
