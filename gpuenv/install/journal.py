"""The journal of an environment's transactions: what each moves where, on disk before anything is moved; and its lock.

``ROOT/.gpuenv/NUMBER/`` holds ``journal.json`` (written once, complete), ``state.json`` (how far it is), ``kept`` (the
files that left their places) and ``stage`` (those that come). Every path in it is relative to ROOT, so that an
environment that was moved can still be put back. Numbers count up: no clock decides what is older.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from gpuenv.files import replace_file, sync_folder
from gpuenv.install.errors import InstallError, TargetUnusable
from gpuenv.install.paths import JOURNALS
from gpuenv.model.codec import DecodeError, decode, encode
from gpuenv.model.text import whole_number

ROOM = "Make room or rights there, and try again."
_PRIVATE = 0o700
_LOCK = "lock"
_TRIES = 20  # each fails only where another gpuenv has just ended
SCHEMA = "gpuenv.journal/1"


@contextlib.contextmanager
def _held(root: Path, folder: Path) -> Iterator[None]:
    """Holds the lock of an environment; it and its folder are removed again where no transaction was recorded.

    The lock of a process that dies is released by the system.
    """
    for _ in range(_TRIES):
        _make_folder(root, folder)
        handle = _take_lock(root, folder / _LOCK)
        if handle is not None:
            break
    else:
        raise _busy(root)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if [entry.name for entry in folder.iterdir()] == [_LOCK]:
                (folder / _LOCK).unlink()
                folder.rmdir()
        os.close(handle)


def _make_folder(root: Path, folder: Path) -> None:
    try:
        folder.mkdir(mode=_PRIVATE)
    except FileExistsError:
        pass
    except OSError as error:
        raise TargetUnusable(
            f"{root}: the environment cannot be written: {error.strerror}",
            "Install as a user who may write there, or into an environment of your own.",
        ) from error
    with contextlib.suppress(FileNotFoundError):  # removed since: the next try makes it anew
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid not in {0, os.geteuid()}:
            raise TargetUnusable(f"{folder} is not gpuenv's own folder", "Look at who made it, and remove it.")


def _take_lock(root: Path, path: Path) -> int | None:
    """The descriptor of the locked file; None where another gpuenv has just removed the file."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TargetUnusable(f"{path}: cannot be written: {error.strerror}", ROOM) from error
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _busy(root) from error
        except OSError as error:
            raise TargetUnusable(
                f"{path}: cannot be locked: {error.strerror}",
                "Its file system keeps no locks, as a network's does that is mounted without them: mount it with "
                "locks, or install into an environment on a disk of this machine.",
            ) from error
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.lstat()):
                stack.pop_all()
                return handle
    return None


def _busy(root: Path) -> TargetUnusable:
    return TargetUnusable(
        f"{root}: another gpuenv is at work on this environment", "Wait until it has ended, and try again."
    )


class State(str, Enum):
    """How far a transaction has come."""

    OPEN = "open"
    COMMITTED = "committed"
    UNDOING = "undoing"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class Kept:
    """A file or link that leaves its place; what is noted of it tells whether it is the same one later.

    Attributes:
        place: its path below the root of the environment.
        inode: of the file or link.
        size: bytes.
        mtime_ns: time of change, nanoseconds since 1970.
    """

    place: str
    inode: int
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Put:
    """A file that comes from the stage to its place.

    Attributes:
        staged: its path in the stage.
        place: its path below the root of the environment.
        inode: of the staged file: it is known again by this and the next two.
        size: bytes.
        mtime_ns: time of change, nanoseconds since 1970.
    """

    staged: str
    place: str
    inode: int
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Journal:
    """One transaction.

    Attributes:
        number: which one.
        created_at: time of day, for the eye alone.
        gpuenv_version: who wrote it.
        summary: what it does, in words.
        former: name and version of every distribution that was there.
        removed: those that left, as ``name==version``.
        installed: those that came, as ``name==version``.
        keep: the files that leave their places, in this order.
        put: the files that come, in this order.
        created: the folders that are made for them, outermost first.
        folders: the folders that the kept files stood in, with their permissions.
    """

    number: str
    created_at: str | None
    gpuenv_version: str
    summary: str
    former: Mapping[str, str]
    removed: tuple[str, ...]
    installed: tuple[str, ...]
    keep: tuple[Kept, ...]
    put: tuple[Put, ...]
    created: tuple[str, ...]
    folders: Mapping[str, int]
    schema: str = SCHEMA


@dataclass(frozen=True, slots=True)
class Standing:
    """The content of ``state.json``."""

    state: State


@dataclass(frozen=True, slots=True)
class Store:
    """The journals of one environment."""

    root: Path

    @property
    def folder(self) -> Path:
        """Where they lie."""
        return self.root / JOURNALS

    def transaction(self, number: str) -> Path:
        """The folder of one transaction."""
        return self.folder / number

    def stage(self, number: str) -> Path:
        """Where its new files are put together."""
        return self.transaction(number) / "stage"

    def kept(self, number: str, index: int) -> Path:
        """Where one of the files that left is kept."""
        return self.transaction(number) / "kept" / str(index // 1000) / str(index)

    def numbers(self) -> tuple[str, ...]:
        """Every transaction there is, the oldest first."""
        try:
            names = [entry.name for entry in self.folder.iterdir()]
        except OSError:
            return ()
        return tuple(sorted((name for name in names if whole_number(name) is not None), key=int))

    def begin(self) -> str:
        """A new transaction's number; its folder is made.

        Raises:
            TargetUnusable: when nothing can be written there.
        """
        number = f"{int(self.numbers()[-1]) + 1 if self.numbers() else 1:04d}"
        try:
            self.transaction(number).mkdir(mode=_PRIVATE)
        except OSError as error:
            raise TargetUnusable(f"{self.folder}: cannot be written: {error.strerror}", ROOM) from error
        return number

    def write(self, journal: Journal) -> None:
        """Writes a journal; when this returns it outlives a power cut.

        Raises:
            OSError: when it cannot be written.
        """
        _write(self.transaction(journal.number) / "journal.json", encode(journal))
        sync_folder(self.folder)

    def mark(self, number: str, state: State) -> None:
        """Notes how far it is, in the same way."""
        _write(self.transaction(number) / "state.json", encode(Standing(state)))

    def read(self, number: str) -> Journal | None:
        """A journal; None where none was written, since then nothing was moved.

        Raises:
            InstallError: when it is there and cannot be understood.
        """
        path = self.transaction(number) / "journal.json"
        try:
            journal = decode(Journal, json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, DecodeError, RecursionError) as error:
            raise not_read(path, "the journal", error) from error
        outside = [text for text in _paths(journal) if not _is_below(text)]
        if outside or journal.number != number:
            raise InstallError(f"{path}: names what is outside of the environment: {(outside or [number])[0]!r}")
        return journal

    def state(self, number: str) -> State:
        """How far it is; open where nothing says so."""
        path = self.transaction(number) / "state.json"
        try:
            return decode(Standing, json.loads(path.read_text(encoding="utf-8"))).state
        except (OSError, ValueError, DecodeError, RecursionError):
            return State.OPEN

    def drop(self, number: str) -> None:
        """Forgets a transaction, and what it kept.

        Its journal goes first: without one, nothing was ever moved.
        """
        folder = self.transaction(number)
        with contextlib.suppress(OSError):
            (folder / "journal.json").unlink()
            sync_folder(folder)
        shutil.rmtree(folder, ignore_errors=True)

    def locked(self) -> AbstractContextManager[None]:
        """Holds the environment against every other gpuenv; see ``_held``.

        Raises:
            TargetUnusable: when another one holds it, or nothing can be written or held there.
        """
        return _held(self.root, self.folder)


def not_read(path: Path, what: str, error: Exception) -> InstallError:
    """The error for a damaged journal; nothing is put back by guesses."""
    return InstallError(
        f"{path}: {what} cannot be read: {error}",
        f"Where the environment works, remove {path.parent}: that install can then not be undone. Else make it anew.",
    )


def _write(path: Path, data: object) -> None:
    replace_file(path, json.dumps(data), durable=True, private=True)


def _paths(journal: Journal) -> Iterator[str]:
    yield from (entry.place for entry in journal.keep)
    for entry in journal.put:
        yield from (entry.place, entry.staged)
    yield from journal.created
    yield from journal.folders


def _is_below(text: str) -> bool:
    return not text.startswith("/") and ".." not in text.split("/") and "\0" not in text
