"""Measures unpacked wheels: GPU code, symbol versions, what a CuPy was built with, what an NVRTC compiles for."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path

from packaging.requirements import Requirement

from gpuenv.matrix.records import Matrix
from gpuenv.model.secrets import for_the_driver
from gpuenv.model.versions import CudaVersion
from gpuenv.probe.children import Ending, run_child
from gpuenv.refresh.elf import ElfError, read_elf, soname, versions_needed
from gpuenv.refresh.fatbin import SECTIONS, GpuCode, gpu_code

_PATIENCE = 300.0
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
        glibc: the newest symbol version of the C library that one of them needs, as 2.17.
        libstdcxx: likewise of the C++ library, as 3.4.21.
    """

    code: GpuCode
    glibc: str | None
    libstdcxx: str | None


@dataclass(frozen=True, slots=True)
class Metadata:
    """What the metadata of a CuPy wheel asks for."""

    requires_python: str
    numpy: str
    extras: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Nvrtc:
    """What an NVRTC answered."""

    cuda: CudaVersion
    capabilities: tuple[str, ...]
    ptx: str
    soname: str | None


def read_binaries(folder: Path) -> Binaries:
    """Reads every library in a folder.

    Raises:
        MeasureError: where one cannot be read.
    """
    sections: list[bytes] = []
    versions: set[str] = set()
    for path in sorted(folder.rglob("*.so*")):
        if not path.is_file():
            continue
        try:
            elf = read_elf(path.read_bytes())
            versions |= versions_needed(elf)
            sections += [data for name in SECTIONS for data in elf.named(name)]
        except ElfError as error:
            raise MeasureError(f"{path.relative_to(folder)}: {error}") from error
    try:
        code = gpu_code(sections)
    except ValueError as error:
        raise MeasureError(f"{folder.name}: {error}") from error
    return Binaries(code, _newest(versions, "GLIBC_"), _newest(versions, "GLIBCXX_"))


def _newest(versions: set[str], prefix: str) -> str | None:
    numbers = [text.removeprefix(prefix) for text in versions if text.startswith(prefix)]
    return max(
        (text for text in numbers if text.replace(".", "").isdigit()),
        key=lambda text: tuple(map(int, text.split("."))),
        default=None,
    )


def read_metadata(folder: Path) -> Metadata:
    """The metadata of the one CuPy in a folder.

    Raises:
        MeasureError: where there is none.
    """
    files = list(folder.glob("cupy*.dist-info/METADATA"))
    if len(files) != 1:
        raise MeasureError(f"{folder}: expected the metadata of one CuPy, found {len(files)}")
    message = Parser().parsestr(files[0].read_text(encoding="utf-8"))
    wanted = [Requirement(text) for text in message.get_all("Requires-Dist") or []]
    numpy = [str(entry.specifier) for entry in wanted if entry.name.lower() == "numpy" and entry.marker is None]
    return Metadata(message["Requires-Python"] or "", numpy[0] if numpy else "", _cuda_extras(message, wanted))


def _cuda_extras(message: Message, wanted: list[Requirement]) -> dict[str, str]:
    """The extras that bring CUDA, each with the requirement it adds."""
    found: dict[str, str] = {}
    for extra in message.get_all("Provides-Extra") or []:
        for entry in wanted:
            if entry.name == "cuda-toolkit" and entry.marker is not None and entry.marker.evaluate({"extra": extra}):
                found[extra] = str(entry).partition(";")[0].strip()
    return found


def built_with(folder: Path, code: GpuCode, matrix: Matrix, environment: Mapping[str, str]) -> CudaVersion | None:
    """The CUDA that a CuPy was compiled with: by its own word where it can be imported here, else by its PTX.

    Only what one CUDA minor alone writes decides; None where neither tells.
    """
    command = [sys.executable, "-I", "-c", _BUILD_VERSION, str(folder)]
    done = run_child(command, for_the_driver(environment), time.monotonic() + _PATIENCE)
    told = done.stdout.strip()
    if done.ending is Ending.EXITED and done.exit_code == 0 and told.isdigit():
        return CudaVersion.from_number(int(told))
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
    name = soname(read_elf(compilers[0].read_bytes()))
    return Nvrtc(CudaVersion.parse(answer["cuda"]), capabilities, answer["ptx"][0], name)
