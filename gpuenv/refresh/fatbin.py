"""The GPU code in a library: which capabilities, as machine code (SASS) or as PTX, read without NVIDIA's tools.

The layout was learnt from files that nvcc wrote: containers of a 16-byte header, in them entries with a header of 64
bytes or more. cuobjdump reads the same, and refuses files with old capabilities.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

SECTIONS = (".nv_fatbin", "__nv_relfatbin")
_MAGIC = 0xBA55ED50
_PTX, _SASS = 1, 2
_ACCELERATED, _FAMILY = 0x100000, 0x200000  # the suffixes a and f, as in sm_90a and sm_100f
_HEADER, _LEAST = 16, 64  # bytes of a container's header, and of an entry's


@dataclass(frozen=True, slots=True)
class GpuCode:
    """Capabilities in the notation of the matrix (``10.0f``), and the versions of the PTX."""

    sass: tuple[str, ...]
    ptx: tuple[str, ...]
    ptx_versions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    kind: int
    version: tuple[int, int]
    arch: int
    flags: int

    @property
    def capability(self) -> str:
        suffix = "a" if self.flags & _ACCELERATED else "f" if self.flags & _FAMILY else ""
        return f"{self.arch // 10}.{self.arch % 10}{suffix}"


def gpu_code(sections: Iterable[bytes]) -> GpuCode:
    """What is in some sections together.

    Raises:
        ValueError: where the layout is not the known one.
    """
    entries = [entry for data in sections for entry in _entries(data)]
    sass = {entry.capability for entry in entries if entry.kind == _SASS}
    ptx = {entry.capability for entry in entries if entry.kind == _PTX}
    versions = sorted({entry.version for entry in entries if entry.kind == _PTX})
    return GpuCode(_sorted(sass), _sorted(ptx), tuple(f"{major}.{minor}" for major, minor in versions))


def _entries(data: bytes) -> Iterator[_Entry]:
    at = 0
    while at + _HEADER <= len(data):
        magic, _, header, size = struct.unpack_from("<IHHQ", data, at)
        if magic != _MAGIC:
            at += 8  # containers stand at multiples of 8, with padding between
            continue
        if header < _HEADER:
            raise ValueError(f"a container of GPU code with a header of {header} bytes")
        place, end = at + header, min(at + header + size, len(data))
        while place + _LEAST <= end:
            kind, _, length, padded = struct.unpack_from("<HHIQ", data, place)
            minor, major, arch = struct.unpack_from("<HHI", data, place + 24)
            (flags,) = struct.unpack_from("<Q", data, place + 40)
            if length < _LEAST:
                raise ValueError(f"an entry of GPU code with a header of {length} bytes")
            yield _Entry(kind, (major, minor), arch, flags)
            place += length + padded
        at = end


def _sorted(capabilities: Iterable[str]) -> tuple[str, ...]:
    def key(text: str) -> tuple[int, int, str]:
        major, minor = text.rstrip("af").split(".")
        return int(major), int(minor), text

    return tuple(sorted(capabilities, key=key))
