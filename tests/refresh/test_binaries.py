"""Readers of binaries and CuPy sources, against other readers and handwritten data."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from gpuenv.refresh.binaries import MeasureError, gpu_code, read_binaries, read_elf
from gpuenv.refresh.releases import CapsError, read_caps


def _libraries() -> list[Path]:
    """Returns real libraries: the interpreter's extension modules."""
    folder = Path(sys.base_exec_prefix, "lib", f"python{sysconfig.get_python_version()}", "lib-dynload")
    libraries = sorted(folder.glob("*.so"))[:12]
    return libraries or pytest.skip("this interpreter has no extension modules")


def test_symbol_versions_equal_those_of_readelf() -> None:
    readelf = shutil.which("readelf") or pytest.skip("no readelf")
    glibc_versions = set()
    for path in _libraries():
        result = subprocess.run([readelf, "-W", "-V", path], capture_output=True, text=True, check=True, timeout=60)
        needs = result.stdout.partition("Version needs section")[2]
        assert read_elf(path.read_bytes()).versions == set(re.findall(r"Name: (\S+)  Flags", needs))
        glibc_versions |= set(re.findall(r"Name: (GLIBC_\S+)", needs))
    assert glibc_versions


def test_the_soname_is_read_as_the_linker_wrote_it(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    file = tmp_path / "x.so"
    command = [compiler, "-shared", "-x", "c", "/dev/null", "-Wl,-soname,libx.so.7", "-o", str(file)]
    subprocess.run(command, check=True, timeout=60)
    assert read_elf(file.read_bytes()).soname == "libx.so.7"


@pytest.mark.parametrize(
    "data", [b"", b"MZ", b"\x7fELF\x01\x01", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" + b"\xff" * 80]
)
def test_a_file_that_is_not_an_elf_library_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="ELF file"):
        read_elf(data)


def _entry(kind: int, arch: int, flags: int = 0, ptx: tuple[int, int] = (8, 8), payload: int = 8) -> bytes:
    header = struct.pack("<HHIQ", kind, 0x101, 64, payload) + bytes(8)
    header += struct.pack("<HHI", ptx[1], ptx[0], arch) + bytes(8)
    header += struct.pack("<Q", flags)
    return header.ljust(64, b"\0") + bytes(payload)


def _container(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def test_gpu_code_is_listed_by_capability_with_suffix() -> None:
    first = _container(_entry(2, 50), _entry(2, 90, 0x100000), _entry(1, 100))
    second = _container(_entry(2, 120, 0x200000), _entry(2, 100), _entry(1, 90, ptx=(7, 8)))
    code = gpu_code([first + bytes(24) + second, b""])
    assert code.sass == ("5.0", "9.0a", "10.0", "12.0f")
    assert code.ptx == ("9.0", "10.0")
    assert code.ptx_versions == ("7.8", "8.8")


def test_an_unknown_layout_of_gpu_code_is_an_error() -> None:
    broken = bytearray(_container(_entry(2, 50)))
    broken[16 + 4 : 16 + 8] = struct.pack("<I", 8)
    with pytest.raises(ValueError, match="header of 8 bytes"):
        gpu_code([bytes(broken)])


def test_a_container_with_an_empty_header_is_an_error() -> None:
    endless = struct.pack("<IHHQ", 0xBA55ED50, 1, 0, 0)
    with pytest.raises(ValueError, match="header of 0 bytes"):
        gpu_code([endless + bytes(24)])


def _corrupt(data: bytes, kind: int, offset: int, value: int) -> bytes:
    """Returns the library with a changed number in a row of the section table; ``kind`` selects the row."""
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    rows = [table + size * number for number in range(count)]
    row = next(at for at in rows if struct.unpack_from("<I", data, at + 4) == (kind,))
    changed = bytearray(data)
    struct.pack_into("<I", changed, row + offset, value)
    return bytes(changed)


_LINK, _DYNAMIC, _NEEDS = 40, 6, 0x6FFFFFFE


@pytest.mark.parametrize("kind", [_DYNAMIC, _NEEDS])
def test_a_corrupt_section_is_reported_with_its_file(kind: int, tmp_path: Path) -> None:
    (tmp_path / "a.so").write_bytes(_corrupt(_libraries()[0].read_bytes(), kind, _LINK, 9999))
    with pytest.raises(MeasureError, match=r"a\.so: a broken ELF file: "):
        read_binaries(tmp_path)


_NEW = """
def _get_max_compute_capability():
    major, minor = _get_nvrtc_version()
    if major == 12 and minor < 8:
        return '90'
    elif major == 12 and minor == 8:
        cap = '120'
    else:
        cap = '121'
    return cap

def _get_arch():
    return min(arch, _get_max_compute_capability(), key=int)
"""
_OLD = """
def _get_arch():
    major, minor = _get_nvrtc_version()
    if (major, minor) == (11, 0):
        nvrtc_max_compute_capability = '80'
    elif major == 11 and minor < 8:
        nvrtc_max_compute_capability = '86'
    else:
        nvrtc_max_compute_capability = '90'
    return min(arch, nvrtc_max_compute_capability)
"""


def test_capability_caps_are_read_from_new_and_old_cupy_sources() -> None:
    new, old = read_caps(_NEW, 12), read_caps(_OLD, 11)
    assert (new.steps, new.as_text) == ({"12.0": "9.0", "12.8": "12.0", "12.9": "12.1"}, False)
    assert (old.steps, old.as_text) == ({"11.0": "8.0", "11.1": "8.6", "11.8": "9.0"}, True)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def _get_arch(): pass", "no table"),
        (_NEW.replace("minor < 8", "minor in (1, 2)"), "an unexpected expression: "),
        (_NEW.replace("return '90'", "return best()"), "without a constant"),
        (
            _NEW.replace("min(arch, _get_max_compute_capability(), key=int)", "lower_of(arch)"),
            "no comparison of capability and cap",
        ),
        (_NEW.replace("_get_arch", "_arch_of"), "no comparison of capability and cap"),
        ("def (", "compiler.py"),
    ],
)
def test_an_unknown_form_of_the_caps_table_is_an_error(source: str, message: str) -> None:
    with pytest.raises(CapsError, match=message):
        read_caps(source, 12)
