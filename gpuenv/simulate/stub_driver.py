"""Compiles the stub NVIDIA driver and stub CUDA libraries, and caches them in the user's cache folder.

Every function that compiles raises ``StubBuildError`` if there is no compiler, or it fails.
"""

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
from gpuenv.files import make_private_folder, others_reach, own_folder, own_search_path, read_own, user_cache
from gpuenv.model.nvidia import CUDA_LIBRARIES
from gpuenv.model.secrets import without_secrets
from gpuenv.model.strings import error_reason
from gpuenv.probe.children import Ending, run_child

SOURCES = ("nvml.c", "cuda.c", "uname.c", "audit.c", "stub.c", "stub.h", "nvidia-smi")
_VERSION = "580.95.05"  # in the names of the files
# Hidden symbols: two stubs in one process must not bind to each other's internals.
FLAGS = ("-std=c11", "-O1", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden", "-shared")
_DIGESTS = "SHA256SUMS"
_LARGEST = 16 * 1024 * 1024  # bytes of one cached file
_LIMIT = 120.0  # seconds to compile one file on a busy machine


class StubBuildError(RuntimeError):
    """The stub driver could not be compiled; the message names the cause and the fix."""


@dataclass(frozen=True, slots=True)
class StubDriver:
    """The paths of a compiled stub driver.

    Attributes:
        folder: for LD_LIBRARY_PATH.
        nvml: ``libnvidia-ml.so.<version>``.
        cuda: ``libcuda.so.<version>``.
        uname: for LD_PRELOAD.
        audit: for LD_AUDIT, to hide the libraries of the host's driver and CUDA toolkit.
        nvidia_smi: its folder goes on PATH.
    """

    folder: Path
    nvml: Path
    cuda: Path
    uname: Path
    audit: Path
    nvidia_smi: Path


def build(destination: Path, *, extra_flags: Sequence[str] = ()) -> StubDriver:
    """Compiles all parts into one folder."""
    compiler = _compiler()
    destination.mkdir(parents=True, exist_ok=True)
    stub = stub_paths(destination)
    flags = (*FLAGS, *extra_flags)
    _compile(compiler, (*flags, "-Wl,-soname,libnvidia-ml.so.1"), ("nvml.c", "stub.c"), stub.nvml)
    _compile(compiler, (*flags, "-Wl,-soname,libcuda.so.1"), ("cuda.c", "stub.c"), stub.cuda)
    _compile(compiler, (*flags, "-Wl,-soname,libgpuenv-uname.so"), ("uname.c", "stub.c"), stub.uname)
    _compile(compiler, (*flags, "-Wl,-soname,libgpuenv-audit.so"), ("audit.c",), stub.audit)
    _link(destination / "libnvidia-ml.so.1", stub.nvml)
    _link(destination / "libcuda.so.1", stub.cuda)
    _install_smi(stub.nvidia_smi)
    return stub


def stub_paths(folder: Path) -> StubDriver:
    """The paths of a stub driver in a folder, whether compiled yet or not."""
    return StubDriver(
        folder=folder,
        nvml=folder / f"libnvidia-ml.so.{_VERSION}",
        cuda=folder / f"libcuda.so.{_VERSION}",
        uname=folder / "libgpuenv-uname.so",
        audit=folder / "libgpuenv-audit.so",
        nvidia_smi=folder / "nvidia-smi",
    )


def compile_library(source: Path, name: str, output: Path) -> None:
    """Compiles one C file into a shared library."""
    flags = ["-shared", "-fPIC", "-x", "c", str(source), f"-Wl,-soname,{name}", "-o", str(output)]
    _run([*_compiler(), *flags])


def lay_out(  # one flag per part that a machine may lack
    stub: StubDriver,
    folder: Path,
    driver_version: str,
    *,
    with_nvml: bool = True,
    with_cuda: bool = True,
    with_smi: bool = False,
) -> Path:
    """Creates one machine's driver folder from a compiled stub, and returns it.

    The files are copies, which a test may damage.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for is_included, name, library in ((with_nvml, "libnvidia-ml.so", stub.nvml), (with_cuda, "libcuda.so", stub.cuda)):
        if is_included:
            real = folder / f"{name}.{driver_version}"
            shutil.copy2(library, real)
            _link(folder / f"{name}.1", real)
    if with_smi:
        _install_smi(folder / "nvidia-smi")
    return folder


def _compiler() -> tuple[str, ...]:
    text = os.environ.get("CC", "cc")
    compiler = shlex.split(text)
    folders = own_search_path(os.environ, lambda _: None)  # PATH is the command's own
    found = shutil.which(compiler[0], path=folders) if compiler else None
    if found is None:
        raise StubBuildError(f"the stub driver needs a C compiler, and {text!r} was not found: install gcc or set CC")
    return (found, *compiler[1:])


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
# cuda-pathfinder loads it to find the toolkit and its headers; CuPy's wheels link it statically.
CUDART = {11: "libcudart.so.11.0", 12: "libcudart.so.12", 13: "libcudart.so.13"}


def _toolkit_sonames(release: str) -> list[str]:
    major = int(release.partition(".")[0])
    return [*(library.soname for library in CUDA_LIBRARIES[major]), CUDART[major]]


def compile_toolkit(release: str, folder: Path) -> Path:
    """Compiles the libraries of a CUDA release, such as 12.4, that CuPy and cuda-pathfinder load.

    Returns their folder, below ``folder``; if it exists, nothing is compiled.
    """
    libraries = folder / f"cuda-{release}"
    if libraries.is_dir():
        return libraries
    libraries.mkdir(parents=True)
    major, minor = map(int, release.split("."))
    nvrtc = folder / f"nvrtc-{release}.c"
    nvrtc.write_text(NVRTC.format(major, minor), encoding="utf-8")
    for soname in _toolkit_sonames(release):
        source = nvrtc if soname.startswith("libnvrtc.") else Path(os.devnull)
        compile_library(source, soname, libraries / soname)
    return libraries


Announce = Callable[[str], None]


def cache_folder(environment: Mapping[str, str], announce: Announce) -> Path | None:
    """The cache folder, named by a digest of sources and flags; None if the user has no cache folder of their own."""
    cache = user_cache(environment)
    if cache is None:
        return None
    sources = data_path("native")
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update((sources / name).read_bytes())
    inputs = (sys.platform, os.uname().machine, environment.get("CC", ""), FLAGS, NVRTC, CUDA_LIBRARIES, CUDART)
    digest.update(repr(inputs).encode())
    return own_folder(cache / f"stub-{digest.hexdigest()[:16]}", announce)


def cached_stub(cache: Path | None, folder: Path, announce: Announce, progress: Announce) -> StubDriver:
    """The stub driver, below a folder of this run: copied from the cache, or compiled and kept there."""
    stub = stub_paths(folder / "stub")
    names = [part.name for part in (stub.nvml, stub.cuda, stub.uname, stub.audit, stub.nvidia_smi)]
    if not _copy_from_cache(cache, names, stub.folder, announce):
        progress("compiling the stub driver, once")
        build(stub.folder)
        _copy_to_cache(stub.folder, names, cache)
    return stub


def cached_toolkit(release: str, cache: Path | None, folder: Path, announce: Announce) -> Path:
    """The folder, below one of this run, with the libraries of a CUDA release, from the cache or compiled."""
    libraries, kept = folder / f"cuda-{release}", cache and cache / f"cuda-{release}"
    names = _toolkit_sonames(release)
    if not _copy_from_cache(kept, names, libraries, announce):
        compile_toolkit(release, folder)
        _copy_to_cache(libraries, names, kept)
    return libraries


def _digests(contents: Mapping[str, bytes]) -> bytes:
    """The lines of ``sha256sum``."""
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in contents.items()).encode()


def _copy_from_cache(cache: Path | None, names: Sequence[str], folder: Path, announce: Announce) -> bool:
    """Copies all files from the cache; False, without copies, if one is missing, damaged or open to another user."""
    if cache is None:
        return False
    try:
        contents = {name: read_own(cache / name, _LARGEST) for name in names}
        if read_own(cache / _DIGESTS, _LARGEST) != _digests(contents):
            return False
    except PermissionError as error:
        announce(f"{error.filename} is not used: {error_reason(error)}")
        return False
    except OSError:
        return False
    folder.mkdir(parents=True)
    for name, data in contents.items():
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o700)
    return True


def _copy_to_cache(folder: Path, names: Sequence[str], cache: Path | None) -> None:
    """Copies files and their digests into the cache atomically; does nothing if another user can change it."""
    if cache is None:
        return
    with contextlib.suppress(OSError):
        make_private_folder(cache.parent)
        if others_reach(cache.parent):
            return
        part = Path(tempfile.mkdtemp(prefix=".stub-", dir=cache.parent))
        try:
            contents = {name: (folder / name).read_bytes() for name in names}
            for name, data in {**contents, _DIGESTS: _digests(contents)}.items():
                (part / name).write_bytes(data)
                (part / name).chmod(0o600)
            shutil.rmtree(cache, ignore_errors=True)  # it may be incomplete
            part.rename(cache)
        finally:
            shutil.rmtree(part, ignore_errors=True)
