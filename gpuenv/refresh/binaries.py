"""Measures binaries of unpacked wheels: GPU code, symbol versions, the CUDA of a build, what an NVRTC compiles for."""

from __future__ import annotations

import json
import re
import shutil
import struct
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from gpuenv.matrix.tables import Matrix
from gpuenv.model.secrets import for_the_driver
from gpuenv.model.strings import parse_integer
from gpuenv.model.versions import CudaVersion
from gpuenv.probe.children import Ending, run_child
from gpuenv.probe.protocol import last_line

_PATIENCE = 300.0
_GFX = re.compile(rb"amdgcn-amd-amdhsa-+(gfx[0-9a-f]+)")  # entries of a bundle of code for AMD GPUs (clang)
_BUILD_VERSION = """
import sys
sys.path.insert(0, sys.argv[1])
from cupy_backends.cuda.api import driver
print(driver.get_build_version())
"""


class MeasureError(Exception):
    """A binary cannot be measured, or is not what was expected."""


class Binaries(NamedTuple):
    """Contents of the extension modules of a wheel.

    Attributes:
        by_file: the GPU code of each module that has any.
        gfx: targets of the code for AMD GPUs.
        hip: soname of the required HIP runtime.
        glibc: newest required symbol version of the C library, as 2.17.
        libstdcxx: newest required symbol version of the C++ library, as 3.4.21.
    """

    code: GpuCode
    by_file: Mapping[Path, GpuCode]
    gfx: tuple[str, ...]
    hip: str | None
    glibc: str | None
    libstdcxx: str | None


class Nvrtc(NamedTuple):
    """Facts reported by an NVRTC.

    Attributes:
        ptx: the version of PTX that it writes.
        builtins: soname of the library that it loads to compile.
        glibc: the oldest C library that both support.
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
        MeasureError: a module cannot be read.
    """
    by_file: dict[Path, GpuCode] = {}
    sections: list[bytes] = []
    versions: set[str] = set()
    needed: set[str] = set()
    gfx: set[str] = set()
    for path in sorted((*folder.rglob("*.so*"), *folder.rglob("*.pyd"))):
        if not path.is_file():
            continue
        data = path.read_bytes()
        try:
            if path.suffix == ".pyd":
                found = list(pe_sections(data, SECTIONS[0]))
            else:
                elf = read_elf(data)
                found = list(elf.code)
                versions |= elf.versions
                needed |= elf.needed
            if found:
                by_file[path] = gpu_code(found)
        except ValueError as error:
            raise MeasureError(f"{path.relative_to(folder)}: {error}") from error
        sections += found
        gfx |= {match.decode() for match in _GFX.findall(data)}
    hip = next((name for name in sorted(needed) if name.startswith("libamdhip64.so")), None)
    targets = tuple(sorted(gfx, key=lambda text: (len(text), text)))
    return Binaries(
        gpu_code(sections), by_file, targets, hip, _newest(versions, "GLIBC_"), _newest(versions, "GLIBCXX_")
    )


def _newest(versions: Iterable[str], prefix: str) -> str | None:
    numbers = [text.removeprefix(prefix) for text in versions if text.startswith(prefix)]
    return max(
        (text for text in numbers if all(parse_integer(part) is not None for part in text.split("."))),
        key=lambda text: tuple(map(int, text.split("."))),
        default=None,
    )


def built_with(folder: Path, code: GpuCode, matrix: Matrix, environment: Mapping[str, str]) -> CudaVersion | None:
    """Returns the CUDA version that a CuPy was built with, reported by its module if importable, else by its PTX.

    The PTX version decides only if a single CUDA minor version writes it; None if unknown.
    """
    command = [sys.executable, "-I", "-c", _BUILD_VERSION, str(folder)]
    done = run_child(command, for_the_driver(environment), time.monotonic() + _PATIENCE)
    number = parse_integer(done.stdout.strip())
    if done.ending is Ending.EXITED and done.exit_code == 0 and number is not None:
        return CudaVersion.from_number(number)
    writers = [row.cuda for row in matrix.cuda_minors if code.ptx_versions and row.ptx == code.ptx_versions[-1]]
    return writers[0] if len(writers) == 1 else None


def ask_nvrtc(folder: Path, environment: Mapping[str, str]) -> Nvrtc:
    """Queries the NVRTC in a folder in a child process.

    Raises:
        MeasureError: it does not answer.
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
        raise MeasureError(f"{compilers[0].name}: {done.ending.value}: {last_line(done.stderr)}")
    answer = json.loads(done.stdout)
    capabilities = tuple(f"{arch // 10}.{arch % 10}" for arch in answer["archs"])
    if len(answer["ptx"]) != 1:
        raise MeasureError(f"{compilers[0].name}: writes PTX of several versions: {', '.join(answer['ptx'])}")
    read = [read_elf(path.read_bytes()) for path in (compilers[0], builtins[0])]
    glibc = _newest(read[0].versions | read[1].versions, "GLIBC_")
    cuda = CudaVersion.parse(answer["cuda"])
    return Nvrtc(cuda, capabilities, answer["ptx"][0], read[0].soname, read[1].soname, glibc)


_ELF_MAGIC = b"\x7fELF\x02\x01"  # 64 bit, little endian: every platform with CUDA


class Elf(NamedTuple):
    """Parts of an ELF file; ``versions`` are the required symbol versions, as ``GLIBC_2.17``."""

    soname: str | None
    needed: frozenset[str]
    versions: frozenset[str]
    code: tuple[bytes, ...]


def read_elf(data: bytes) -> Elf:
    """Reads an ELF file.

    Raises:
        ValueError: it is another or a broken file.
    """
    if not data.startswith(_ELF_MAGIC):
        raise ValueError("not a 64-bit little-endian ELF file")
    try:
        sections = list(ELFFile(BytesIO(data)).iter_sections())
        tags = [tag for section in sections if isinstance(section, DynamicSection) for tag in section.iter_tags()]
        needs = [
            part for section in sections if isinstance(section, GNUVerNeedSection) for part in section.iter_versions()
        ]
        return Elf(
            soname=next((tag.soname for tag in tags if tag.entry.d_tag == "DT_SONAME"), None),  # type: ignore[attr-defined]
            needed=frozenset(tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"),  # type: ignore[attr-defined]
            versions=frozenset(version.name for _, versions in needs for version in versions),
            code=tuple(section.data() for section in sections if section.name in SECTIONS),
        )
    except (ELFError, LookupError, OverflowError) as error:
        raise ValueError(f"a broken ELF file: {error}") from error


_NAME_LENGTH = 8  # of a PE section: .nv_fatbin becomes .nv_fatb


def pe_sections(data: bytes, name: str) -> Iterator[bytes]:
    """Yields the contents of the sections with a name.

    Raises:
        ValueError: the section table cannot be read.
    """
    try:
        (header,) = struct.unpack_from("<I", data, 0x3C)
        if not data.startswith(b"MZ") or data[header : header + 4] != b"PE\0\0":
            raise ValueError("not a PE file")
        (count,) = struct.unpack_from("<H", data, header + 6)
        (optional,) = struct.unpack_from("<H", data, header + 20)
        table = header + 24 + optional
        for number in range(count):
            label, used, _, size, start = struct.unpack_from("<8sIIII", data, table + 40 * number)
            if label.rstrip(b"\0") == name[:_NAME_LENGTH].encode():
                yield data[start : start + min(size, used or size)]
    except struct.error as error:
        raise ValueError(f"a broken table of sections: {error}") from error


SECTIONS = (".nv_fatbin", "__nv_relfatbin")
_FATBIN_MAGIC = 0xBA55ED50
_PTX, _SASS = 1, 2
_ACCELERATED, _FAMILY = 0x100000, 0x200000  # the suffixes a and f, as in sm_90a and sm_100f
_HEADER_BYTES, _ENTRY_BYTES = 16, 64  # headers of a container and of an entry


class GpuCode(NamedTuple):
    """Capabilities in the notation of the matrix (``10.0f``), and the versions of the PTX."""

    sass: tuple[str, ...]
    ptx: tuple[str, ...]
    ptx_versions: tuple[str, ...]


class _FatbinEntry(NamedTuple):
    kind: int
    version: tuple[int, int]
    arch: int
    suffix: str


def gpu_code(sections: Iterable[bytes]) -> GpuCode:
    """Returns the GPU code of some sections.

    Raises:
        ValueError: the layout is unknown.
    """
    entries = [entry for data in sections for entry in _entries(data)]
    versions = sorted({entry.version for entry in entries if entry.kind == _PTX})
    ptx_versions = tuple(f"{major}.{minor}" for major, minor in versions)
    return GpuCode(_capabilities(entries, _SASS), _capabilities(entries, _PTX), ptx_versions)


def _capabilities(entries: Iterable[_FatbinEntry], kind: int) -> tuple[str, ...]:
    found = sorted({(entry.arch, entry.suffix) for entry in entries if entry.kind == kind})
    return tuple(f"{arch // 10}.{arch % 10}{suffix}" for arch, suffix in found)


def _entries(data: bytes) -> Iterator[_FatbinEntry]:
    position = 0
    while position + _HEADER_BYTES <= len(data):
        magic, _, header, size = struct.unpack_from("<IHHQ", data, position)
        if magic != _FATBIN_MAGIC:
            position += 8  # containers are aligned to 8 bytes, with padding
            continue
        if header < _HEADER_BYTES:
            raise ValueError(f"a container of GPU code with a header of {header} bytes")
        offset, end = position + header, min(position + header + size, len(data))
        while offset + _ENTRY_BYTES <= end:
            kind, _, length, padded = struct.unpack_from("<HHIQ", data, offset)
            minor, major, arch = struct.unpack_from("<HHI", data, offset + 24)
            (flags,) = struct.unpack_from("<Q", data, offset + 40)
            if length < _ENTRY_BYTES:
                raise ValueError(f"an entry of GPU code with a header of {length} bytes")
            suffix = "a" if flags & _ACCELERATED else "f" if flags & _FAMILY else ""
            yield _FatbinEntry(kind, (major, minor), arch, suffix)
            offset += length + padded
        position = end


_LISTED_ELF = re.compile(r"\.sm_(\d+)[af]?\.(?:cubin|elf)")  # it omits the suffix of a family
_LISTED_PTX = re.compile(r"\.(?:sm|compute)_(\d+)[af]?\.ptx")
_EMPTY = "does not contain device code"


class CrossCheck(NamedTuple):
    """Result of cuobjdump: files that it cannot read, and files with different code."""

    refused: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()


def find_cuobjdump(environment: Mapping[str, str]) -> Path | None:
    """Returns the program on PATH, or that of an installed toolkit."""
    found = shutil.which("cuobjdump", path=environment.get("PATH"))
    folders = [Path(environment[name]) for name in ("CUDA_PATH", "CUDA_HOME") if environment.get(name)]
    paths = [folder / "bin" / "cuobjdump" for folder in (*folders, Path("/usr/local/cuda"))]
    return Path(found) if found else next((path for path in paths if path.is_file()), None)


def cross_check(program: Path, codes: Mapping[Path, GpuCode], environment: Mapping[str, str]) -> CrossCheck:
    """Compares the code found in each file with the list of ``cuobjdump``."""
    refused, differences = [], []
    for path, code in codes.items():
        elf, ptx = (_listed(program, option, path, environment) for option in ("--list-elf", "--list-ptx"))
        if elf is None or ptx is None:
            refused.append(path.name)
            continue
        listed = set(_LISTED_ELF.findall(elf)), set(_LISTED_PTX.findall(ptx))
        expected = {_plain(text) for text in code.sass}, {_plain(text) for text in code.ptx}
        if listed != expected:
            differences.append(f"{path.name}: cuobjdump finds {_code_text(listed)} instead of {_code_text(expected)}")
    return CrossCheck(tuple(refused), tuple(differences))


def _listed(program: Path, option: str, path: Path, environment: Mapping[str, str]) -> str | None:
    done = run_child([str(program), "--all-fatbin", option, str(path)], environment, time.monotonic() + _PATIENCE)
    if done.ending is Ending.EXITED and (done.exit_code == 0 or _EMPTY in done.stdout + done.stderr):
        return done.stdout
    return None


def _plain(capability: str) -> str:
    return capability.replace(".", "").rstrip("af")


def _code_text(found: tuple[set[str], set[str]]) -> str:
    return f"SASS {' '.join(sorted(found[0])) or 'none'} and PTX {' '.join(sorted(found[1])) or 'none'}"
