"""Reads tar files of unknown origin header by header, within limits; compressed ones are read as streams."""

from __future__ import annotations

import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

_LARGEST_HEADERS = 1 << 16  # bytes of the headers of one member: tarfile reads a long name or a pax header whole
_LARGEST_HEADERS_IN_ALL = 1 << 26
_MOST_MEMBERS = 100_000
# A compressed file may unpack to 256 MiB and twenty times its size.
_ALWAYS_ALLOWED, _LARGEST_RATIO = 1 << 28, 20
_XZ_MEMORY = 1 << 27
_XZ = (b"\xfd7zXZ\x00", b"\x5d\x00\x00")
_COMPRESSED = (b"\x1f\x8b", b"BZh", *_XZ)


class ArchiveError(tarfile.TarError):
    """An archive exceeds a limit."""


class TarReader:
    """The members of a tar file, one after the other."""

    def __init__(self, tar: tarfile.TarFile, reader: _Reader) -> None:
        """``reader`` is the file that ``tar`` reads."""
        self._tar, self._reader = tar, reader

    def __iter__(self) -> Iterator[tarfile.TarInfo]:
        """The members; none is kept here.

        Raises:
            tarfile.TarError: when the file is damaged, or exceeds a limit.
        """
        member = self._tar.next()
        left = _LARGEST_HEADERS_IN_ALL
        for _ in range(_MOST_MEMBERS):
            left -= _LARGEST_HEADERS - self._reader.left
            if left < 0:
                raise ArchiveError(f"its headers have more than {_LARGEST_HEADERS_IN_ALL} bytes")
            if member is None:
                return
            member.pax_headers = {}
            self._tar.members = []  # type: ignore[attr-defined]  # keeps them, as documented
            self._tar.pax_headers = {}
            yield member
            self._reader.left = _LARGEST_HEADERS
            member = self._tar.next()
        if member is not None:
            raise ArchiveError(f"more than {_MOST_MEMBERS} entries")

    def data(self, member: tarfile.TarInfo) -> IO[bytes]:
        """The content of a plain file.

        Raises:
            ArchiveError: for another kind of member.
        """
        source = self._tar.extractfile(member) if is_plain(member) else None
        if source is None:
            raise ArchiveError(f"{member.name[:80]!r} is not a regular file")
        self._reader.left = sys.maxsize
        return source


def is_plain(member: tarfile.TarInfo) -> bool:
    """Whether a member is a regular file, and not sparse: a sparse one can be larger than the archive."""
    return member.isreg() and not member.issparse()


def is_compressed(path: Path) -> bool:
    """Whether a file is compressed with gzip, bzip2 or xz."""
    with path.open("rb") as file:
        return file.read(8).startswith(_COMPRESSED)


@contextmanager
def open_tar(path: Path) -> Iterator[TarReader]:
    """Opens a tar file, which may be compressed.

    Raises:
        OSError: when it cannot be read.
        tarfile.TarError: when it is not a tar file, or exceeds a limit.
    """
    with _opened(path) as file:
        most = _ALWAYS_ALLOWED + _LARGEST_RATIO * path.stat().st_size if is_compressed(path) else sys.maxsize
        reader = _Reader(file, most)
        with tarfile.open(fileobj=reader, mode="r:") as tar:  # type: ignore[call-overload]
            yield TarReader(tar, reader)


def _opened(path: Path) -> IO[bytes]:
    import bz2  # noqa: PLC0415 - Python may be built without any of them
    import gzip  # noqa: PLC0415
    import lzma  # noqa: PLC0415

    with path.open("rb") as file:
        head = file.read(1 << 16)
    if head.startswith(_XZ):
        lzma.LZMADecompressor(memlimit=_XZ_MEMORY).decompress(head, 1)  # refuses a larger dictionary
        return lzma.open(path)
    if head.startswith(b"BZh"):
        return bz2.open(path)
    if head.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.open(path))
    return path.open("rb")


class _Reader:
    """Counts what tarfile reads of headers, and ends a compressed file that unpacks to too much."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self.left = _LARGEST_HEADERS
        self._file, self._most = file, most

    def read(self, size: int) -> bytes:
        """The next bytes."""
        self.left -= size
        if self.left < 0:
            raise ArchiveError(f"the headers of an entry have more than {_LARGEST_HEADERS} bytes")
        return self._file.read(size)

    def seek(self, position: int, whence: int = 0) -> int:
        """Goes to a position; in a compressed file, unpacks all before it."""
        if position > self._most:
            raise ArchiveError(f"unpacks to more than {self._most} bytes, too many for its size")
        return self._file.seek(position, whence)

    def seekable(self) -> bool:
        """Whether it has positions."""
        return True

    def tell(self) -> int:
        """The position."""
        return self._file.tell()
