"""The matrix that was read before, kept in the user's cache: validated once, then read in a tenth of the time.

The file decides, never the cache: an entry is found by the checksum of the file's bytes, with its size and times, and
those of the code that reads them, so a changed file or program has none. An entry that is broken, that others could
have written, or that is for another file is ignored, and so is a folder where nothing can be kept. The checksums find
changes and damage; against malice stand the rights to the folder. The library of cryptography alone takes 4 ms to load.
"""

from __future__ import annotations

import contextlib
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import gpuenv
from gpuenv.files import open_regular, read_regular

if TYPE_CHECKING:
    from gpuenv.matrix.records import Matrix

_KEPT = 4  # entries: the shipped matrix, the user's own, and what is being worked on
_MADE = 3  # folders at most: the caches, gpuenv's, and that of the entries
_LARGEST = 32 * 1024 * 1024
# What an entry depends on: a change in any of these may change what a file means.
_CODE: tuple[str, ...] = (
    "matrix/compiled.py",
    "matrix/load.py",
    "matrix/records.py",
    "matrix/strict_yaml.py",
    "matrix/validate.py",
)
_CODE += ("model/codec.py", "model/generations.py", "model/lines.py", "model/versions.py")


def load_matrix(path: Path, folder: Path | None) -> Matrix:
    """A matrix, from the cache where it was read before.

    Args:
        path: the file.
        folder: where entries are kept; None for no cache.

    Raises:
        MatrixError: with every fault of the file.
        OSError, UnicodeDecodeError: when it cannot be read.
    """
    key = _key(path) if folder is not None else None
    if folder is None or key is None:
        return _read(path)
    entry = folder / f"{key}.json"
    found = _kept(entry, key)
    if found is None:
        found = _read(path)
        if _key(path) == key:  # not changed meanwhile
            _keep(entry, key, found)
    return found


def _read(path: Path) -> Matrix:
    from gpuenv.matrix.load import load

    return load(path)


def _key(path: Path) -> str | None:
    """What names the state of file and code; None where one cannot be read, or the file is too large for a matrix.

    A pipe has none: it gives its bytes once, to whoever reads the matrix.
    """
    told = [gpuenv.__version__]
    try:
        state = path.stat()
        told += [f"{path.resolve()} {state.st_size} {state.st_mtime_ns}"]
        for name in _CODE:
            state = (Path(gpuenv.__file__).parent / name).stat()
            told.append(f"{name} {state.st_size} {state.st_mtime_ns}")
        return f"{_sum(' '.join(told).encode())}-{_sum(read_regular(path, _LARGEST))}"
    except OSError:
        return None


def _sum(data: bytes) -> str:
    return f"{zlib.crc32(data):08x}"


def _kept(entry: Path, key: str) -> Matrix | None:
    from gpuenv.matrix.compiled import read_compiled

    try:
        head, _, body = _own_text(entry).partition("\n")
    except (OSError, UnicodeDecodeError):
        return None
    # What has this head is what this very code has written: an error in reading it is a fault of ours, and is told.
    return read_compiled(body) if head == _head(key, body) else None


def _head(key: str, body: str) -> str:
    return f"{key} {_sum(body.encode())}"


def _own_text(entry: Path) -> str:
    """The text of a file that this user alone can write.

    Raises:
        OSError: where it is none, or cannot be read.
    """
    with os.fdopen(open_regular(entry, follow=False), encoding="utf-8") as file:
        state = os.fstat(file.fileno())
        own = _is_own(state) and not state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if state.st_size > _LARGEST or not own:
            raise OSError(f"{entry}: not a file of this user alone")
        return file.read()


def _is_own(state: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or state.st_uid == os.geteuid()


def _keep(entry: Path, key: str, matrix: Matrix) -> None:
    """Writes an entry whole or not at all; where that cannot be, nothing is lost but time."""
    import tempfile

    from gpuenv.matrix.compiled import compiled

    with contextlib.suppress(OSError):
        if not _may_write(entry.parent):
            return
        entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        body = compiled(matrix)
        descriptor, name = tempfile.mkstemp(prefix=".", dir=entry.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(f"{_head(key, body)}\n{body}")
            Path(name).replace(entry)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
        for old in _superfluous(entry.parent):
            old.unlink(missing_ok=True)


def _may_write(folder: Path) -> bool:
    """Not where there is no home, nor into the folder of somebody else, as with sudo and the caller's HOME."""
    there = next((parent for parent in (folder, *folder.parents[:_MADE]) if parent.exists()), None)
    return there is not None and _is_own(there.stat())


def _superfluous(folder: Path) -> Iterator[Path]:
    """All but the newest entries."""
    entries = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    yield from entries[_KEPT:]
