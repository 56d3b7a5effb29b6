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
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from gpuenv.files import replace_file, sync_folder
from gpuenv.install.errors import InstallError, TargetUnusable
from gpuenv.model.codec import DecodeError, decode, encode
from gpuenv.model.strings import parse_integer

JOURNALS = ".gpuenv"  # the folder in the root of an environment
_ROOM = "Make room or rights there, and try again."
_PRIVATE = 0o700
_LOCK = "lock"
_TRIES = 20  # each fails only where another gpuenv has just ended
SCHEMA = "gpuenv.journal/1"


class State(str, Enum):
    """How far a transaction has come."""

    OPEN = "open"
    COMMITTED = "committed"
    UNDOING = "undoing"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class Kept:
    """A file or link that leaves its place, by its path below the root of the environment."""

    place: str
    inode: int  # by this and the next two it is known again
    size: int  # bytes
    mtime_ns: int  # time of change, nanoseconds since 1970


@dataclass(frozen=True, slots=True)
class Put:
    """A file that comes from the stage (``staged``) to its place; both are paths below the root of the environment."""

    staged: str
    place: str
    inode: int
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Journal:
    """One transaction."""

    number: str
    created_at: str | None  # time of day, for the eye alone
    gpuenv_version: str
    summary: str  # what it does, in words
    former: Mapping[str, str]  # name and version of every distribution that was there
    removed: tuple[str, ...]  # as ``name==version``
    installed: tuple[str, ...]
    keep: tuple[Kept, ...]  # the files that leave their places, in this order
    put: tuple[Put, ...]  # the files that come, in this order
    created: tuple[str, ...]  # the folders that are made for them, outermost first
    folders: Mapping[str, int]  # those that the kept files stood in, with their permissions
    schema: str = SCHEMA


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
        return tuple(sorted((name for name in names if parse_integer(name) is not None), key=int))

    def begin(self) -> str:
        """A new transaction's number; its folder is made.

        Raises:
            TargetUnusable: when nothing can be written there.
        """
        number = f"{int(self.numbers()[-1]) + 1 if self.numbers() else 1:04d}"
        try:
            self.transaction(number).mkdir(mode=_PRIVATE)
        except OSError as error:
            raise TargetUnusable(f"{self.folder}: cannot be written: {error.strerror}", _ROOM) from error
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
        _write(self.transaction(number) / "state.json", {"state": state.value})

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
        moved = [path for entry in journal.put for path in (entry.place, entry.staged)]
        paths = [*(entry.place for entry in journal.keep), *moved, *journal.created, *journal.folders]
        outside = [path for path in paths if path.startswith("/") or ".." in path.split("/") or "\0" in path]
        if outside or journal.number != number:
            raise InstallError(f"{path}: names what is outside of the environment: {(outside or [number])[0]!r}")
        return journal

    def state(self, number: str) -> State:
        """How far it is; open where nothing says so."""
        path = self.transaction(number) / "state.json"
        try:
            return State(json.loads(path.read_text(encoding="utf-8"))["state"])
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
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

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the environment against every other gpuenv.

        The lock and its folder are removed again where no transaction was recorded; that of a process that dies is
        released by the system.

        Raises:
            TargetUnusable: when another one holds it, or nothing can be written or held there.
        """
        folder = self.folder
        for _ in range(_TRIES):
            _make_folder(self.root, folder)
            handle = _take_lock(self.root, folder / _LOCK)
            if handle is not None:
                break
        else:
            raise _busy(self.root)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                if [entry.name for entry in folder.iterdir()] == [_LOCK]:
                    (folder / _LOCK).unlink()
                    folder.rmdir()
            os.close(handle)


def store_of(interpreter: str) -> Store | None:
    """The journals of the environment that an interpreter belongs to; it may be gone itself."""
    prefix = Path(os.path.dirname(os.path.dirname(os.path.abspath(interpreter))))  # noqa: PTH100 - no links
    stores = (Store(root) for root in (prefix, prefix / "local"))
    return next((store for store in stores if os.path.isdir(store.folder)), None)  # noqa: PTH112 - raises nothing


def not_read(path: Path, what: str, error: Exception) -> InstallError:
    """The error for a damaged journal; nothing is put back by guesses."""
    return InstallError(
        f"{path}: {what} cannot be read: {error}",
        f"Where the environment works, remove {path.parent}: that install can then not be undone. Else make it anew.",
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
        raise TargetUnusable(f"{path}: cannot be written: {error.strerror}", _ROOM) from error
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
