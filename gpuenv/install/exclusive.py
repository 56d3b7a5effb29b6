"""One gpuenv at a time is at work on an environment; one that leaves no transaction there leaves nothing behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from gpuenv.install.errors import TargetUnusable

ROOM = "Make room or rights there, and try again."
_PRIVATE = 0o700
_LOCK = "lock"
_TRIES = 20  # each fails only where another gpuenv has just ended


@contextlib.contextmanager
def held(root: Path, folder: Path) -> Iterator[None]:
    """Holds an environment against every other gpuenv; a process that dies lets go by itself.

    Args:
        root: of the environment.
        folder: of its journals, which is made.

    Raises:
        TargetUnusable: when another one holds it, or nothing can be written or held there.
    """
    handle = _take(root, folder)
    try:
        yield
    finally:
        _tidy(folder)
        os.close(handle)


def _take(root: Path, folder: Path) -> int:
    """The descriptor of the lock, held; who had it before may just have taken it away."""
    for _ in range(_TRIES):
        _make(root, folder)
        handle = _opened(folder)
        if handle is None:
            continue
        try:
            _hold(root, folder, handle)
            if _is_at(folder / _LOCK, handle):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
    raise _taken(root)


def _make(root: Path, folder: Path) -> None:
    try:
        folder.mkdir(mode=_PRIVATE)
    except FileExistsError:
        pass
    except OSError as error:
        raise TargetUnusable(
            f"{root}: the environment cannot be written: {error.strerror}",
            "Install as a user who may write there, or into an environment of your own.",
        ) from error
    with contextlib.suppress(FileNotFoundError):  # taken away since: the next try makes it anew
        told = folder.lstat()
        if not stat.S_ISDIR(told.st_mode) or told.st_uid not in {0, os.geteuid()}:
            raise TargetUnusable(f"{folder} is not gpuenv's own folder", "Look at who made it, and remove it.")


def _opened(folder: Path) -> int | None:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    try:
        return os.open(folder / _LOCK, flags, 0o600)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TargetUnusable(f"{folder / _LOCK}: cannot be written: {error.strerror}", ROOM) from error


def _hold(root: Path, folder: Path, handle: int) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise _taken(root) from error
    except OSError as error:
        raise TargetUnusable(
            f"{folder / _LOCK}: cannot be locked: {error.strerror}",
            "Its file system keeps no locks, as a network's does that is mounted without them: mount it with "
            "locks, or install into an environment on a disk of this machine.",
        ) from error


def _taken(root: Path) -> TargetUnusable:
    return TargetUnusable(
        f"{root}: another gpuenv is at work on this environment", "Wait until it has ended, and try again."
    )


def _is_at(path: Path, handle: int) -> bool:
    """Whether an open file is still the one at a path; else somebody else may hold the one that is."""
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


def _tidy(folder: Path) -> None:
    with contextlib.suppress(OSError):
        if [entry.name for entry in folder.iterdir()] == [_LOCK]:
            (folder / _LOCK).unlink()
            folder.rmdir()
