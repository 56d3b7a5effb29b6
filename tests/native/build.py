"""Compiles the stub NVIDIA driver and lays it out under the file names of a real one."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCES = Path(__file__).resolve().parent
DRIVER_VERSION = "580.95.05"
# Hidden: two stubs in one process must not bind to each other's internals.
FLAGS = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden", "-shared")


class StubBuildError(RuntimeError):
    """The stub driver could not be compiled."""


@dataclass(frozen=True, slots=True)
class StubDriver:
    """Where the parts of a compiled stub driver lie."""

    folder: Path  # for LD_LIBRARY_PATH
    nvml: Path  # libnvidia-ml.so.<version>
    cuda: Path  # libcuda.so.<version>
    uname: Path  # for LD_PRELOAD
    nvidia_smi: Path  # its folder goes on PATH


def build(destination: Path, *, driver_version: str = DRIVER_VERSION, extra_flags: Sequence[str] = ()) -> StubDriver:
    """Compile everything into one folder; the version only names the files."""
    compiler = _compiler()
    destination.mkdir(parents=True, exist_ok=True)
    stub = StubDriver(
        folder=destination,
        nvml=destination / f"libnvidia-ml.so.{driver_version}",
        cuda=destination / f"libcuda.so.{driver_version}",
        uname=destination / "libgpuenv-uname.so",
        nvidia_smi=destination / "nvidia-smi",
    )
    flags = (*FLAGS, *extra_flags)
    _compile(compiler, (*flags, "-Wl,-soname,libnvidia-ml.so.1"), "nvml.c", stub.nvml)
    _compile(compiler, (*flags, "-Wl,-soname,libcuda.so.1"), "cuda.c", stub.cuda)
    _compile(compiler, (*flags, "-Wl,-soname,libgpuenv-uname.so"), "uname.c", stub.uname)
    _link(destination / "libnvidia-ml.so.1", stub.nvml)
    _link(destination / "libcuda.so.1", stub.cuda)
    _install_smi(stub.nvidia_smi)
    return stub


def lay_out(  # one switch for each part a machine may lack
    stub: StubDriver,
    folder: Path,
    driver_version: str,
    *,
    with_nvml: bool = True,
    with_cuda: bool = True,
    with_smi: bool = False,
) -> Path:
    """Make one machine's driver folder out of a compiled stub, and return it.

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


def _compile(compiler: Sequence[str], flags: Sequence[str], source: str, output: Path) -> None:
    argv = [*compiler, *flags, "-o", str(output), str(SOURCES / source), str(SOURCES / "stub.c")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StubBuildError(f"{shlex.join(argv)} failed with exit code {done.returncode}:\n{done.stderr}")


def _link(link: Path, target: Path) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(target.name)


def _install_smi(path: Path) -> None:
    shutil.copyfile(SOURCES / "nvidia-smi", path)
    path.chmod(0o755)
