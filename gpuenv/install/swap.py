"""Moves the files of a transaction, moves them back, and syncs files and folders to disk.

Each file is removed and added by one rename, and so is the way back. Nothing is copied or modified: a restored file is
identical, including its modification time. Whenever the process dies, each file is in one of two places that the
journal lists.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from pathlib import Path

from gpuenv.install.backends.base import succeeded
from gpuenv.install.environment import digest, record_form
from gpuenv.install.journal import AddedFile, Journal, RemovedFile, Store
from gpuenv.probe.children import ChildGroup, run_child

CACHE = "__pycache__"
_LONGEST = 600.0  # seconds; for gigabytes on a slow disk


class BackgroundSync:
    """Runs ``write_out`` in a thread; ``stop`` abandons it."""

    def __init__(self, folder: Path, paths: Iterable[Path]) -> None:
        """Starts it; the arguments are those of ``write_out``."""
        self._group = ChildGroup()
        self._error: OSError | None = None
        self._stopped = False
        self._thread = threading.Thread(target=self._write, args=(folder, paths), daemon=True)
        self._thread.start()

    def _write(self, folder: Path, paths: Iterable[Path]) -> None:
        try:
            write_out(folder, takewhile(lambda _: not self._stopped, paths), self._group)
        except OSError as error:
            self._error = error

    def finish(self) -> None:
        """Waits until everything is on disk.

        Raises:
            OSError: when writing fails.
        """
        self._thread.join()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Stops it without waiting for the rest."""
        self._stopped = True
        self._group.close()


def everything_in(folder: Path) -> Iterator[Path]:
    """A folder and everything in it."""
    for parent, _, names in os.walk(folder):
        yield Path(parent)
        yield from (Path(parent, name) for name in names)


def write_out(folder: Path, paths: Iterable[Path], group: ChildGroup | None = None) -> None:
    """Syncs files and folders on the file system of ``folder`` to disk.

    One call for the whole file system (sync(1) of coreutils, ``--file-system``) is a hundred times faster than fsync of
    thousands of files, the fallback without that program. ``group`` lets the caller end it early.

    Raises:
        OSError: when writing fails.
    """
    program = shutil.which("sync")
    if program is not None:
        command = [program, "-f", str(folder)]
        result = run_child(command, {"LC_ALL": "C"}, time.monotonic() + _LONGEST, group)
        if succeeded(result):
            return
    for path in paths:
        with contextlib.suppress(PermissionError, FileNotFoundError):
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def files_at(
    root: Path, paths: Iterable[str], digest_of: Callable[[str], str | None] = lambda _: None
) -> tuple[RemovedFile, ...]:
    """The existing files and links at these paths, relative to the root, with the digests of ``digest_of``."""
    found, start = [], f"{root}/"
    for path in dict.fromkeys(paths):
        try:
            status = os.lstat(start + path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        found.append(RemovedFile(path, status.st_ino, status.st_size, status.st_mtime_ns, digest_of(path)))
    return tuple(found)


def move_files(store: Store, journal: Journal) -> None:
    """Moves the files as the journal lists them.

    Raises:
        OSError: when a file cannot be moved; ``undo`` restores the former state.
    """
    root, start = store.root, f"{store.root}/"
    for index in range(0, len(journal.keep), 1000):
        store.kept(journal.number, index).parent.mkdir(parents=True, exist_ok=True)
    for index, going in enumerate(journal.keep):
        os.rename(start + going.place, store.kept(journal.number, index))  # noqa: PTH104 - thousands of files
    for folder in sorted(journal.folders, key=lambda text: text.count("/"), reverse=True):  # innermost first
        cache = root / folder / CACHE
        if cache.is_dir() and len(os.listdir(root / folder)) == 1:  # noqa: PTH208 - its count
            shutil.rmtree(cache, ignore_errors=True)
        with contextlib.suppress(OSError):  # other files remain
            (root / folder).rmdir()
    for name in dict.fromkeys(os.path.dirname(entry.place) for entry in journal.put):
        (root / name).mkdir(parents=True, exist_ok=True)
    for coming in journal.put:
        os.rename(start + coming.staged, start + coming.place)  # noqa: PTH104 - as above


def touched(store: Store, journal: Journal) -> Iterator[Path]:
    """The folders whose entries a transaction changes."""
    names = {os.path.dirname(entry.place) for entry in journal.keep}
    names |= {os.path.dirname(entry.place) for entry in journal.put}
    names |= {os.path.dirname(folder) for folder in (*journal.created, *journal.folders)}
    yield from (store.root / name for name in sorted(names) if (store.root / name).is_dir())
    kept = store.transaction(journal.number) / "kept"
    yield from (kept, *kept.iterdir()) if kept.is_dir() else ()


def undo(store: Store, journal: Journal) -> None:
    """Moves all files back; an interrupted call can be repeated.

    Raises:
        OSError: when a file cannot be moved.
    """
    root = store.root
    coming = {entry.place for entry in journal.put}
    staying = {kept.place for index, kept in enumerate(journal.keep) if not _was_moved(store, journal, index)}
    for path in coming - staying:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            (root / path).unlink()
    for folder, mode in journal.folders.items():
        with contextlib.suppress(FileExistsError):
            (root / folder).mkdir()
        if (root / folder).stat().st_mode & 0o7777 != mode:
            (root / folder).chmod(mode)
    for index, gone in enumerate(journal.keep):
        if _was_moved(store, journal, index):
            os.rename(store.kept(journal.number, index), root / gone.place)  # noqa: PTH104 - thousands of files
    for folder in reversed(journal.created):
        shutil.rmtree(root / folder / CACHE, ignore_errors=True)  # created by imports
        with contextlib.suppress(OSError):
            (root / folder).rmdir()


def _was_moved(store: Store, journal: Journal, index: int) -> bool:
    """Whether a file was moved to the backup, so that anything at its path is newer."""
    return os.path.lexists(store.kept(journal.number, index))


def not_restored(store: Store, journal: Journal) -> tuple[str, ...]:
    """The paths that differ from the former state; empty if all are restored.

    The sizes are compared: each file was renamed, and what is in the backup is the former content.
    """
    root = store.root
    kept = {entry.place: entry.size for entry in journal.keep}
    there = {entry.place: entry.size for entry in files_at(root, kept)}
    wrong = [path for path, size in kept.items() if there.get(path) != size]
    extra = [e.place for e in journal.put if e.place not in kept and os.path.lexists(root / e.place)]
    # A folder with other files by now, such as nvidia/ of CUDA's wheels, remains.
    left = [folder for folder in journal.created if (root / folder).is_dir() and not any((root / folder).iterdir())]
    return tuple(wrong + extra + left)


def _is_same(root: Path, now: RemovedFile, then: RemovedFile | AddedFile) -> bool:
    """Whether a file is the recorded one, by its content unless inode, size and time show that it is untouched.

    In a copied environment every inode is another one.
    """
    if (now.inode, now.size, now.mtime_ns) == (then.inode, then.size, then.mtime_ns):
        return True
    return now.size == then.size and then.sha256 is not None and has_content(f"{root}/{now.place}", then.sha256)


def has_content(path: str, sha256: str) -> bool:
    """Whether a file, or the target of a link, has a digest."""
    try:
        return content_digest(path) == sha256
    except OSError:
        return False


def content_digest(path: str) -> str:
    """The SHA-256 of a file, or of the path that a link names; OSError when it cannot be read."""
    if not os.path.islink(path):  # noqa: PTH114 - thousands of files
        return digest(path)
    return record_form(hashlib.sha256(os.fsencode(os.readlink(path))).digest())  # noqa: PTH115


def taken_since(store: Store, journal: Journal) -> tuple[str, ...]:
    """The paths of an unfinished transaction at which other programs have put files since."""
    known: dict[str, list[RemovedFile | AddedFile]] = {}
    entries: tuple[RemovedFile | AddedFile, ...] = (*journal.keep, *journal.put)
    for entry in entries:
        known.setdefault(entry.place, []).append(entry)
    there = files_at(store.root, (place for place in known if CACHE not in place))
    return tuple(now.place for now in there if not any(_is_same(store.root, now, then) for then in known[now.place]))


def changed_since(store: Store, journal: Journal) -> tuple[str, ...]:
    """The files of a committed transaction that other programs changed since.

    A missing new file does not count, nor does bytecode, which Python writes again.
    """
    root = store.root
    there = {entry.place: entry for entry in journal.put if CACHE not in entry.place}
    changed = [now.place for now in files_at(root, there) if not _is_same(root, now, there[now.place])]
    new = {entry.place for entry in journal.put}
    taken = [entry.place for entry in journal.keep if entry.place not in new and os.path.lexists(root / entry.place)]
    lost = [e.place for index, e in enumerate(journal.keep) if not _was_moved(store, journal, index)]
    return tuple(changed + [place for place in taken if CACHE not in place] + lost)
