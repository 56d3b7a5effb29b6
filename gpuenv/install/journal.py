"""The journal of an environment's transactions, written before any file moves, and its exclusive lock.

``ROOT/.gpuenv/NUMBER/`` holds ``journal.json`` (written once, complete), ``state.json`` (the progress), ``kept``
(removed files) and ``stage`` (new files). All paths are relative to ROOT, so that a moved environment can still
be rolled back. Numbers increase: no clock decides which transaction is older.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from gpuenv.files import others_access, read_regular, replace_file, sync_folder
from gpuenv.install.exceptions import InstallError, TargetUnusable
from gpuenv.model.codec import DecodeError, decode, encode
from gpuenv.probe.transactions import (
    JOURNAL,
    JOURNALS,
    LOCK,
    TransactionState,
    journals_folder,
    numbers_in,
    prefix_of,
    state_of,
)

_FIX_FOLDER = "Free space or fix the permissions there, then try again."
_PRIVATE = 0o700
_BLOCK = 512  # bytes; stat(2)
_MAX_TRIES = 20  # each fails only if another gpuenv has just ended
LARGEST_RECORD = 32 << 20  # bytes; a record of 50,000 files has 20 million
_MOST_VALUES = 1 << 20  # each takes up to 90 bytes of memory
SCHEMA = "gpuenv.journal/1"


@dataclass(frozen=True, slots=True)
class RemovedFile:
    """A file or link to remove, by its path relative to the root of the environment."""

    place: str
    inode: int  # with the next two, what shows without reading it that it is unchanged
    size: int  # bytes
    mtime_ns: int  # time of change, nanoseconds since 1970
    sha256: str | None = None  # of its content, as a RECORD writes it; needed where the environment was copied


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A file to move from the stage to ``place``; both paths are relative to the root of the environment."""

    staged: str
    place: str
    inode: int
    size: int
    mtime_ns: int
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Journal:
    """One transaction."""

    number: str
    created_at: str | None  # time of day, for display only
    gpuenv_version: str
    summary: str  # for display
    former: Mapping[str, str]  # name and version of every distribution before
    removed: tuple[str, ...]  # as ``name==version``
    installed: tuple[str, ...]
    keep: tuple[RemovedFile, ...]  # the files to remove, in order
    put: tuple[AddedFile, ...]  # the files to add, in order
    created: tuple[str, ...]  # new folders, outermost first
    folders: Mapping[str, int]  # folders of the removed files, with their permissions
    schema: str = SCHEMA


@dataclass(frozen=True, slots=True)
class Store:
    """The journals of one environment."""

    root: Path

    @property
    def folder(self) -> Path:
        """The folder of the journals."""
        return self.root / JOURNALS

    def transaction(self, number: str) -> Path:
        """The folder of one transaction."""
        return self.folder / number

    def stage(self, number: str) -> Path:
        """The folder of its new files."""
        return self.transaction(number) / "stage"

    def kept(self, number: str, index: int) -> Path:
        """The backup path of a removed file."""
        return self.transaction(number) / "kept" / str(index // 1000) / str(index)

    def numbers(self) -> tuple[str, ...]:
        """The numbers of all transactions, the oldest first.

        Raises:
            TargetUnusable: when the folder exists and cannot be read.
        """
        try:
            return numbers_in(self.folder)
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise TargetUnusable(
                f"{self.folder}: cannot be read: {error.strerror}", "Run this as the user who installed there."
            ) from error

    def begin(self) -> str:
        """Creates the folder of a new transaction and returns its number.

        Raises:
            TargetUnusable: when the folder is not writable.
        """
        first = int(self.numbers()[-1]) + 1 if self.numbers() else 1
        names = (f"{number:04d}" for number in count(first))
        number = next(name for name in names if not os.path.lexists(self.transaction(name)))  # a stray file
        try:
            self.transaction(number).mkdir(mode=_PRIVATE)
        except OSError as error:
            raise TargetUnusable(f"{self.folder}: cannot be written: {error.strerror}", _FIX_FOLDER) from error
        return number

    def write(self, journal: Journal) -> None:
        """Writes a journal, which survives a power failure once this returns.

        Raises:
            OSError: when it cannot be written.
        """
        _write(self.transaction(journal.number) / JOURNAL, encode(journal))
        sync_folder(self.folder)

    def mark(self, number: str, state: TransactionState) -> None:
        """Records the state of a transaction, as durably."""
        _write(self.transaction(number) / "state.json", {"state": state.value})

    def read(self, number: str) -> Journal | None:
        """Reads a journal; None if none was written, so that no file was moved.

        Raises:
            InstallError: when it is unreadable or invalid.
        """
        path = self.transaction(number) / JOURNAL
        try:
            journal = decode(Journal, read_json(path))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, DecodeError, RecursionError) as error:
            raise unreadable(path, "the journal", error) from error
        moved = [path for entry in journal.put for path in (entry.place, entry.staged)]
        paths = [*(entry.place for entry in journal.keep), *moved, *journal.created, *journal.folders]
        outside = [path for path in paths if path.startswith("/") or ".." in path.split("/") or "\0" in path]
        if outside or journal.number != number:
            raise InstallError(f"{path}: names a path outside of the environment: {(outside or [number])[0]!r}")
        return journal

    def state(self, number: str) -> TransactionState:
        """The state of a transaction; open if none is recorded."""
        return state_of(self.transaction(number))

    def size(self, number: str) -> int:
        """The bytes on the disk that deleting a transaction frees; files that are linked elsewhere free none."""
        entries = (Path(parent, name) for parent, _, names in os.walk(self.transaction(number)) for name in names)
        total = 0
        for entry in entries:
            with contextlib.suppress(OSError):
                status = entry.lstat()
                total += status.st_blocks * _BLOCK if status.st_nlink == 1 else 0
        return total

    def drop(self, number: str) -> None:
        """Deletes a transaction and its backups.

        The journal goes first: without one, no file counts as moved.
        """
        folder = self.transaction(number)
        with contextlib.suppress(OSError):
            (folder / JOURNAL).unlink()
            sync_folder(folder)
        shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the exclusive lock of the environment.

        Removes the lock file and the folder again if no transaction was recorded; the system releases the lock of a
        process that dies.

        Raises:
            TargetUnusable: when another gpuenv holds it, or the folder cannot be written or locked.
        """
        folder = self.folder
        for _ in range(_MAX_TRIES):
            _make_folder(self.root, folder)
            handle = _take_lock(self.root, folder / LOCK)
            if handle is not None:
                break
        else:
            raise _busy(self.root)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                if [entry.name for entry in folder.iterdir()] == [LOCK]:
                    (folder / LOCK).unlink()
                    folder.rmdir()
            os.close(handle)


def store_of(interpreter: str) -> Store | None:
    """The journals of the environment of an interpreter, which may itself be missing."""
    folder = journals_folder(prefix_of(interpreter))
    return Store(folder.parent) if folder is not None else None


def read_json(path: Path) -> Any:  # noqa: ANN401 - JSON
    """A journal, or conda's record of a package.

    Raises:
        OSError: when it cannot be read, is not a regular file, or is too large.
        ValueError: when it is no JSON, or has too many values.
        RecursionError: when it is nested too deep.
    """
    data = read_regular(path, LARGEST_RECORD)
    if sum(map(data.count, (b",", b"[", b"{"))) > _MOST_VALUES:
        raise ValueError(f"more than {_MOST_VALUES} values")
    return json.loads(data)


def unreadable(path: Path, what: str, error: Exception) -> InstallError:
    """The error for a damaged journal, which is never rolled back by guessing."""
    return InstallError(
        f"{path}: {what} cannot be read: {error}",
        f"If the environment works, keep it as it is: gpuenv rollback --forget {path.parent.name}. Else recreate it.",
    )


def _write(path: Path, data: object) -> None:
    replace_file(path, json.dumps(data), durable=True, private=True)


def _make_folder(root: Path, folder: Path) -> None:
    try:
        folder.mkdir(mode=_PRIVATE)
    except FileExistsError:
        pass
    except OSError as error:
        raise TargetUnusable(
            f"{root}: the environment is not writable: {error.strerror}",
            "Install as a user with write access, or into an environment of your own.",
        ) from error
    with contextlib.suppress(FileNotFoundError):  # removed meanwhile: the next try creates it
        status = folder.lstat()
        reason = others_access(status) if stat.S_ISDIR(status.st_mode) else "is no folder"
        if reason:
            message = f"{folder} is not gpuenv's own folder: it {reason}"
            remedy = (
                "If another user installed with gpuenv, install as that user: the folder keeps what undoes those "
                "installs. Else check who created it, then remove it."
            )
            raise TargetUnusable(message, remedy)


def _take_lock(root: Path, path: Path) -> int | None:
    """The descriptor of the locked file; None if another gpuenv has just removed the file."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TargetUnusable(f"{path}: cannot be written: {error.strerror}", _FIX_FOLDER) from error
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _busy(root) from error
        except OSError as error:
            raise TargetUnusable(
                f"{path}: cannot be locked: {error.strerror}",
                "Its file system does not support locks, such as a network mount without them: mount it with "
                "locks, or install into an environment on a local disk.",
            ) from error
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.lstat()):
                stack.pop_all()
                return handle
    return None


def _busy(root: Path) -> TargetUnusable:
    return TargetUnusable(f"{root}: another gpuenv is using this environment", "Wait for it to finish, then try again.")
