"""Measures unpacked wheels: GPU code, symbol versions, what a CuPy was built with, what an NVRTC compiles for."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuenv.matrix.records import Matrix
from gpuenv.model.numbers import whole_number
from gpuenv.model.secrets import for_the_driver
from gpuenv.model.versions import CudaVersion
from gpuenv.probe.children import Ending, run_child
from gpuenv.refresh.elf import ElfError, libraries_needed, read_elf, soname, versions_needed
from gpuenv.refresh.fatbin import SECTIONS, GpuCode, gpu_code
from gpuenv.refresh.pe import PeError, pe_sections

_PATIENCE = 300.0
_GFX = re.compile(rb"amdgcn-amd-amdhsa-+(gfx[0-9a-f]+)")  # entries of a bundle of code for AMD GPUs (clang)
_BUILD_VERSION = """
import sys
sys.path.insert(0, sys.argv[1])
from cupy_backends.cuda.api import driver
print(driver.get_build_version())
"""


class MeasureError(Exception):
    """A binary did not answer, or is not what it was taken for."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """What is in the extension modules of a wheel.

    Attributes:
        code: their GPU code together.
        by_file: the GPU code of each that has any.
        gfx: the targets of their code for AMD GPUs.
        hip: soname of the HIP runtime that they need.
        glibc: the newest symbol version of the C library that one of them needs, as 2.17.
        libstdcxx: likewise of the C++ library, as 3.4.21.
    """

    code: GpuCode
    by_file: Mapping[Path, GpuCode]
    gfx: tuple[str, ...]
    hip: str | None
    glibc: str | None
    libstdcxx: str | None


@dataclass(frozen=True, slots=True)
class Nvrtc:
    """What an NVRTC answered.

    Attributes:
        cuda: its version.
        capabilities: that it compiles for.
        ptx: the version of PTX that it writes.
        soname: its own.
        builtins: soname of the library that it opens to compile.
        glibc: the oldest that both accept.
    """

    cuda: CudaVersion
    capabilities: tuple[str, ...]
    ptx: str
    soname: str | None
    builtins: str | None
    glibc: str | None


def read_binaries(folder: Path) -> Binaries:
    """Reads every extension module in a folder.

    Raises:
        MeasureError: where one cannot be read.
    """
    by_file: dict[Path, GpuCode] = {}
    sections: list[bytes] = []
    versions: set[str] = set()
    needed: set[str] = set()
    gfx: set[str] = set()
    for path in sorted((*folder.rglob("*.so*"), *folder.rglob("*.pyd"))):
        if not path.is_file():
            continue
        try:
            found, data = _of_file(path, versions, needed)
            if found:
                by_file[path] = gpu_code(found)
        except (ElfError, PeError, ValueError) as error:
            raise MeasureError(f"{path.relative_to(folder)}: {error}") from error
        sections += found
        gfx |= {match.decode() for match in _GFX.findall(data)}
    hip = next((name for name in sorted(needed) if name.startswith("libamdhip64.so")), None)
    targets = tuple(sorted(gfx, key=lambda text: (len(text), text)))
    return Binaries(
        gpu_code(sections), by_file, targets, hip, _newest(versions, "GLIBC_"), _newest(versions, "GLIBCXX_")
    )


def _of_file(path: Path, versions: set[str], needed: set[str]) -> tuple[list[bytes], bytes]:
    """The sections with GPU code, and the whole; what a Linux library needs is added to the sets."""
    data = path.read_bytes()
    if path.suffix == ".pyd":
        return list(pe_sections(data, SECTIONS[0])), data
    elf = read_elf(data)
    versions |= versions_needed(elf)
    needed |= set(libraries_needed(elf))
    return [section for name in SECTIONS for section in elf.named(name)], data


def _newest(versions: Iterable[str], prefix: str) -> str | None:
    numbers = [text.removeprefix(prefix) for text in versions if text.startswith(prefix)]
    return max(
        (text for text in numbers if all(whole_number(part) is not None for part in text.split("."))),
        key=lambda text: tuple(map(int, text.split("."))),
        default=None,
    )


def built_with(folder: Path, code: GpuCode, matrix: Matrix, environment: Mapping[str, str]) -> CudaVersion | None:
    """The CUDA that a CuPy was compiled with: by its own word where it can be imported here, else by its PTX.

    Only what one CUDA minor alone writes decides; None where neither tells.
    """
    command = [sys.executable, "-I", "-c", _BUILD_VERSION, str(folder)]
    done = run_child(command, for_the_driver(environment), time.monotonic() + _PATIENCE)
    told = whole_number(done.stdout.strip())
    if done.ending is Ending.EXITED and done.exit_code == 0 and told is not None:
        return CudaVersion.from_number(told)
    writers = [row.cuda for row in matrix.cuda_minors if code.ptx_versions and row.ptx == code.ptx_versions[-1]]
    return writers[0] if len(writers) == 1 else None


def ask_nvrtc(folder: Path, environment: Mapping[str, str]) -> Nvrtc:
    """Lets the NVRTC in a folder answer, in a child.

    Raises:
        MeasureError: where it does not.
    """
    libraries = sorted(path for path in folder.rglob("libnvrtc*.so*") if ".alt." not in path.name)
    compilers = [path for path in libraries if path.name.startswith("libnvrtc.so")]
    builtins = [path for path in libraries if path.name.startswith("libnvrtc-builtins.so")]
    if len(compilers) != 1 or len(builtins) != 1:
        raise MeasureError(f"{folder}: expected one libnvrtc and its builtins, found {len(libraries)} libraries")
    script = Path(__file__).parent.parent / "probe" / "scripts" / "nvrtc.py"
    command = [sys.executable, "-I", str(script), str(compilers[0]), str(builtins[0])]
    done = run_child(command, for_the_driver(environment), time.monotonic() + _PATIENCE)
    if done.ending is not Ending.EXITED or done.exit_code != 0:
        raise MeasureError(f"{compilers[0].name}: {done.ending.value}: {' '.join(done.stderr.split())[-300:]}")
    answer = json.loads(done.stdout)
    capabilities = tuple(f"{arch // 10}.{arch % 10}" for arch in answer["archs"])
    if len(answer["ptx"]) != 1:
        raise MeasureError(f"{compilers[0].name}: writes PTX of several versions: {', '.join(answer['ptx'])}")
    read = [read_elf(path.read_bytes()) for path in (compilers[0], builtins[0])]
    glibc = _newest(set().union(*map(versions_needed, read)), "GLIBC_")
    cuda = CudaVersion.parse(answer["cuda"])
    return Nvrtc(cuda, capabilities, answer["ptx"][0], soname(read[0]), soname(read[1]), glibc)
