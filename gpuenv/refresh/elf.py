"""As much of an ELF file as is asked for: its sections, the symbol versions it needs, and its soname."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_MAGIC = b"\x7fELF\x02\x01"  # 64 bit, little endian: every platform with CUDA
_DYNAMIC, _VERNEED = 6, 0x6FFFFFFE
_DT_NEEDED, _DT_SONAME = 1, 14


class ElfError(ValueError):
    """Not an ELF file of the usual kind."""


@dataclass(frozen=True, slots=True)
class Section:
    """A section by its place in the file.

    Attributes:
        name: ``.symtab``.
        kind: ``sh_type``.
        link: ``sh_link``.
        start: offset in the file, bytes.
        size: bytes.
    """

    name: str
    kind: int
    link: int
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Elf:
    """The bytes of a file, and its sections."""

    data: bytes
    sections: tuple[Section, ...]

    def content(self, section: Section) -> bytes:
        """The bytes of a section."""
        return self.data[section.start : section.start + section.size]

    def named(self, name: str) -> Iterator[bytes]:
        """The content of every section of a name."""
        return (self.content(section) for section in self.sections if section.name == name)


def read_elf(data: bytes) -> Elf:
    """Reads the table of sections.

    Raises:
        ElfError: for anything but a 64-bit little-endian ELF file.
    """
    if not data.startswith(_MAGIC):
        raise ElfError("not a 64-bit little-endian ELF file")
    with _in_one_piece("table of sections"):
        (table,) = struct.unpack_from("<Q", data, 40)
        entry, count, names_at = struct.unpack_from("<HHH", data, 58)
        rows = [struct.unpack_from("<IIQQQQII", data, table + entry * number) for number in range(count)]
        names = rows[names_at]
        return Elf(data, tuple(Section(_text(data, names[4] + row[0]), row[1], row[6], row[4], row[5]) for row in rows))


@contextmanager
def _in_one_piece(what: str) -> Iterator[None]:
    """A part of the file that is not what it says is an ElfError."""
    try:
        yield
    except (struct.error, IndexError, OverflowError) as error:
        raise ElfError(f"a broken {what}: {error}") from error


def versions_needed(elf: Elf) -> set[str]:
    """``GLIBC_2.17`` and the like, of every library that the file needs (.gnu.version_r).

    Raises:
        ElfError: where the section is broken.
    """
    with _in_one_piece("section of symbol versions"):
        needs = (section for section in elf.sections if section.kind == _VERNEED)
        return {name for section in needs for name in _versions(elf, section)}


def _versions(elf: Elf, section: Section) -> Iterator[str]:
    texts, at = elf.sections[section.link].start, section.start
    while True:
        _, count, _, first, following = struct.unpack_from("<HHIII", elf.data, at)
        one = at + first
        for _ in range(count):
            _, _, _, name, step = struct.unpack_from("<IHHII", elf.data, one)
            yield _text(elf.data, texts + name)
            one += step
        if not following:
            return
        at += following


def soname(elf: Elf) -> str | None:
    """The name that the dynamic loader knows a library by.

    Raises:
        ElfError: where the dynamic section is broken.
    """
    return next(_dynamic(elf, _DT_SONAME), None)


def libraries_needed(elf: Elf) -> Iterator[str]:
    """The sonames of the libraries that the dynamic loader loads with it; ElfError as ``soname``."""
    return _dynamic(elf, _DT_NEEDED)


def _dynamic(elf: Elf, wanted: int) -> Iterator[str]:
    for section in elf.sections:
        if section.kind != _DYNAMIC:
            continue
        with _in_one_piece("section of the loader"):
            texts = elf.sections[section.link].start
            found = [value for tag, value in struct.iter_unpack("<QQ", elf.content(section)) if tag == wanted]
        yield from (_text(elf.data, texts + value) for value in found)


def _text(data: bytes, at: int) -> str:
    end = data.find(b"\0", at)
    return data[at : end if end >= 0 else len(data)].decode("utf-8", "replace")
