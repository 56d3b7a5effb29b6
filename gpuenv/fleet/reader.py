"""Reads the files of node reports from a folder, an archive or a stream, one at a time; none of them ends the run."""

from __future__ import annotations

import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from gpuenv.archives import is_plain, open_tar
from gpuenv.files import LARGEST_DOCUMENT, TooLargeError, read_regular
from gpuenv.fleet.node_report import COLLECTION_FILE, LARGEST
from gpuenv.model.strings import error_reason

_SUFFIX = ".json"
_MOST_ENTRIES = 1_000_000  # of a zip archive
_LARGEST_DIRECTORY = 1 << 28  # bytes; zipfile reads it whole
_END = (1 << 16) + 22  # bytes of the record at the end with the longest comment
_DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
)


class ReportFile(NamedTuple):
    """The content of a file; or why it was not read."""

    name: str
    size: int | None
    data: bytes | None
    reason: str = ""


def report_paths(folder: Path) -> list[Path]:
    """The files of a folder that should be reports; a hidden one is still being written.

    Raises:
        OSError: when the folder cannot be read.
    """
    with os.scandir(folder) as entries:
        return [folder / name for name in sorted(entry.name for entry in entries) if _is_report(name)]


def _is_report(name: str) -> bool:
    return name.endswith(_SUFFIX) and not name.startswith(".")


def _limit(name: str) -> int:
    """The largest size in bytes; that of the collection has every node in it."""
    return LARGEST_DOCUMENT if name == COLLECTION_FILE else LARGEST


def read_files(paths: Iterable[Path]) -> Iterator[ReportFile]:
    """Each file; no link is followed, and no pipe waited for."""
    for path in paths:
        size = None
        try:
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                yield ReportFile(path.name, None, None, "a symbolic link, which is not followed")
                continue
            size = status.st_size
            if size > (limit := _limit(path.name)):
                raise TooLargeError(path, limit)
            yield ReportFile(path.name, size, read_regular(path, limit, follow=False))
        except OSError as error:
            yield ReportFile(path.name, size, None, error_reason(error))


def read_reports(source: Path, name: str | None = None) -> Iterator[ReportFile]:
    """The reports of a folder, of a tar or zip archive, or of a file with one report or several.

    ``name`` is what to call a source other than a folder; by default the name of its file.

    Raises:
        OSError: when the source itself cannot be opened.
    """
    if source.is_dir():
        yield from read_files(report_paths(source))
        return
    with source.open("rb") as file:
        if file.peek(1)[:1] in (b"{", b""):
            yield from read_stream(file, name or source.name)
            return
    count = 0
    try:
        for entry in _read_zip(source) if zipfile.is_zipfile(source) else _read_tar(source):
            count += 1
            yield entry
    except _DAMAGED as error:
        reason = f"damaged after {count} reports: {error_reason(error) if isinstance(error, OSError) else error}"
        yield ReportFile(name or source.name, source.stat().st_size, None, reason)


def read_stream(file: IO[bytes], name: str = "-") -> Iterator[ReportFile]:
    """The reports of a text, one after the other; each begins at a line that begins with a brace."""
    number, size, lines = 0, 0, list[bytes]()

    def finish() -> Iterator[ReportFile]:
        if size > LARGEST:
            yield ReportFile(f"{name}:{number}", size, None, f"larger than {LARGEST} bytes")
        elif size:
            yield ReportFile(f"{name}:{number}" if number > 1 else name, size, b"".join(lines))

    at_start = True
    while line := file.readline(LARGEST + 1):
        if at_start and line.startswith(b"{"):
            yield from finish()
            number, size, lines = number + 1, 0, []
        size += len(line)
        if size <= LARGEST:
            lines.append(line)
        at_start = line.endswith(b"\n")
    yield from finish()


def _read_tar(source: Path) -> Iterator[ReportFile]:
    with open_tar(source) as tar:
        for member in tar:
            name = PurePosixPath(member.name).name
            if not _is_report(name) or member.isdir():
                continue
            if not is_plain(member):
                yield ReportFile(name, member.size, None, "not a regular file")
            elif member.size > _limit(name):
                yield ReportFile(name, member.size, None, f"larger than {_limit(name)} bytes")
            else:
                yield ReportFile(name, member.size, tar.data(member).read(member.size))


def _read_zip(source: Path) -> Iterator[ReportFile]:
    if _directory_size(source) > _LARGEST_DIRECTORY:
        raise zipfile.BadZipFile(f"its list of files has more than {_LARGEST_DIRECTORY} bytes")
    with zipfile.ZipFile(source) as archive:
        for member in archive.infolist()[:_MOST_ENTRIES]:
            name = PurePosixPath(member.filename).name
            if _is_report(name) and not member.is_dir():  # the name may be empty, for which is_dir fails
                yield _read_member(archive, member, name)


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> ReportFile:
    limit = _limit(name)
    try:
        with archive.open(member) as file:
            data = file.read(limit + 1)  # the size in the header may be another one
    except _DAMAGED as error:
        return ReportFile(name, member.file_size, None, f"damaged: {error}")
    if len(data) > limit:
        return ReportFile(name, member.file_size, None, f"larger than {limit} bytes")
    return ReportFile(name, member.file_size, data)


def _directory_size(source: Path) -> int:
    """Bytes of the list of files, as the record at the end says (APPNOTE.TXT 6.3.10, section 4.3.16)."""
    with source.open("rb") as file:
        file.seek(-min(_END, source.stat().st_size), os.SEEK_END)
        end = file.read(_END)
    place = end.rfind(b"PK\x05\x06")
    return int.from_bytes(end[place + 12 : place + 16], "little")
