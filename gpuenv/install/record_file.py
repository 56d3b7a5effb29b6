"""RECORD: the files of an installed distribution, with digest and size (PyPA, "Recording installed projects")."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
from dataclasses import dataclass

from gpuenv.files import open_regular, read_regular
from gpuenv.model.numbers import whole_number

_CHUNK = 1024 * 1024
_DIGITS = 18  # of a size that a file may have
_LARGEST = 64 * 1024 * 1024  # bytes of a RECORD: a hundred times that of the largest wheels


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a RECORD: the path relative to the folder of the distribution, and what it should hold."""

    path: str
    sha256: str | None
    size: int | None


def read_record(metadata: str) -> tuple[Entry, ...] | None:
    """The files of a distribution; None where it has no RECORD that can be read."""
    try:
        text = read_regular(os.path.join(metadata, "RECORD"), _LARGEST).decode("utf-8")
        rows = list(csv.reader(io.StringIO(text, newline="")))
    except (OSError, UnicodeDecodeError, csv.Error):
        return None
    if "\0" in text:  # which the csv module of Python 3.10 refuses, and no later one's
        return None
    return tuple(_entry(row) for row in rows if row and row[0])


def is_damaged(folder: str, entries: tuple[Entry, ...]) -> str | None:
    """The first file that is missing or of another size; looks at no contents."""
    for entry in entries:
        try:
            found = os.stat(os.path.join(folder, entry.path))  # noqa: PTH116 - thousands of files
        except (OSError, ValueError):  # no file can be called so
            return entry.path
        if entry.size is not None and found.st_size != entry.size:
            return entry.path
    return None


def misfits(folder: str, entries: tuple[Entry, ...]) -> int:
    """How many files, metadata apart, are missing or of another size; looks at no contents.

    What has no size told is made on the way, as compiled modules are, and may be gone. The probe in the target counts
    in the same way.
    """
    counted = (entry for entry in entries if entry.size is not None and ".dist-info/" not in entry.path)
    return sum(1 for entry in counted if is_damaged(folder, (entry,)) is not None)


def digest(path: str) -> str:
    """The SHA-256 of a file, as a RECORD writes it.

    Raises:
        OSError: when it cannot be read.
    """
    return base64.urlsafe_b64encode(_sha256(path)).rstrip(b"=").decode()


def hex_digest(path: str) -> str:
    """The same, as everybody else writes it.

    Raises:
        OSError: when it cannot be read.
    """
    return _sha256(path).hex()


def _sha256(path: str) -> bytes:
    sha = hashlib.sha256()
    handle = open_regular(path)
    try:
        while chunk := os.read(handle, _CHUNK):  # thousands of small files: no buffer, no object
            sha.update(chunk)
    finally:
        os.close(handle)
    return sha.digest()


def _entry(row: list[str]) -> Entry:
    kind, _, value = (row[1] if len(row) > 1 else "").partition("=")
    size = row[2] if len(row) > 2 else ""  # noqa: PLR2004 - the third column
    return Entry(row[0], value if kind == "sha256" else None, whole_number(size, _DIGITS))
