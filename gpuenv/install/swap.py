"""Moves a transaction's files, undoes that, and writes files and folders to the disk.

Each file leaves its place and comes to it by one rename, and so does the way back. Nothing is copied and nothing is
written to: a file that left is the same file when it returns, byte for byte and to its time of change. Whenever the
process dies, each file is in one of two places, and the journal says which.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path

from gpuenv.install.backends.base import succeeded
from gpuenv.install.journal import AddedFile, Journal, RemovedFile, Store
from gpuenv.probe.children import ChildGroup, run_child

CACHE = "__pycache__"
_LONGEST = 600.0  # seconds; a slow disk with gigabytes to write


class BackgroundSync:
    """A ``write_out`` in a thread of its own; ``stop`` abandons it."""

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
        """Waits until all of it is on the disk.

        Raises:
            OSError: when the disk cannot take it.
        """
        self._thread.join()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Ends it, whatever is written by then."""
        self._stopped = True
        self._group.close()


def everything_in(folder: Path) -> Iterator[Path]:
    """A folder with all that it holds."""
    for place, _, names in os.walk(folder):
        yield Path(place)
        yield from (Path(place, name) for name in names)


def write_out(folder: Path, paths: Iterable[Path], group: ChildGroup | None = None) -> None:
    """Writes files and folders on the file system of ``folder`` to the disk.

    One call for the whole file system (sync(1) of coreutils, ``--file-system``) is a hundred times faster than one for
    each of thousands of files, which is what is done without that program. ``group`` lets the caller end it early.

    Raises:
        OSError: when the disk cannot take them.
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


def keep_of(root: Path, places: Iterable[str]) -> tuple[RemovedFile, ...]:
    """The files and links at these places (relative to the root) as they are now; what is not there is left out."""
    found, start = [], f"{root}/"
    for place in dict.fromkeys(places):
        try:
            status = os.lstat(start + place)
        except (FileNotFoundError, NotADirectoryError):
            continue
        found.append(RemovedFile(place, status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)


def carry_out(store: Store, journal: Journal) -> None:
    """Does what the journal says.

    Raises:
        OSError: when something cannot be moved; ``undo`` puts back what was.
    """
    root, start = store.root, f"{store.root}/"
    for index in range(0, len(journal.keep), 1000):
        store.kept(journal.number, index).parent.mkdir(parents=True, exist_ok=True)
    for index, going in enumerate(journal.keep):
        os.rename(start + going.place, store.kept(journal.number, index))  # noqa: PTH104 - thousands of files
    for folder in sorted(journal.folders, key=lambda text: text.count("/"), reverse=True):  # the innermost first
        cache = root / folder / CACHE
        if cache.is_dir() and len(os.listdir(root / folder)) == 1:  # noqa: PTH208 - its count
            shutil.rmtree(cache, ignore_errors=True)
        with contextlib.suppress(OSError):  # where other files stay
            (root / folder).rmdir()
    for name in dict.fromkeys(os.path.dirname(entry.place) for entry in journal.put):
        (root / name).mkdir(parents=True, exist_ok=True)
    for coming in journal.put:
        os.rename(start + coming.staged, start + coming.place)  # noqa: PTH104 - as above


def touched(store: Store, journal: Journal) -> Iterator[Path]:
    """The folders whose names change by a transaction."""
    names = {os.path.dirname(entry.place) for entry in journal.keep}
    names |= {os.path.dirname(entry.place) for entry in journal.put}
    names |= {os.path.dirname(folder) for folder in (*journal.created, *journal.folders)}
    yield from (store.root / name for name in sorted(names) if (store.root / name).is_dir())
    kept = store.transaction(journal.number) / "kept"
    yield from (kept, *kept.iterdir()) if kept.is_dir() else ()


def undo(store: Store, journal: Journal) -> None:
    """Puts everything back; an interrupted call can be repeated.

    Raises:
        OSError: when something cannot be moved.
    """
    root = store.root
    coming = {entry.place for entry in journal.put}
    staying = {kept.place for index, kept in enumerate(journal.keep) if not _left(store, journal, index)}
    for place in coming - staying:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            (root / place).unlink()
    for folder, mode in journal.folders.items():
        with contextlib.suppress(FileExistsError):
            (root / folder).mkdir()
        if (root / folder).stat().st_mode & 0o7777 != mode:
            (root / folder).chmod(mode)
    for index, gone in enumerate(journal.keep):
        if _left(store, journal, index):
            os.rename(store.kept(journal.number, index), root / gone.place)  # noqa: PTH104 - thousands of files
    for folder in reversed(journal.created):
        shutil.rmtree(root / folder / CACHE, ignore_errors=True)  # of imports
        with contextlib.suppress(OSError):
            (root / folder).rmdir()


def _left(store: Store, journal: Journal, index: int) -> bool:
    """Whether a file has left its place, so that what is there now came later."""
    return os.path.lexists(store.kept(journal.number, index))


def not_restored(store: Store, journal: Journal) -> tuple[str, ...]:
    """What is not as it was before; empty when all is."""
    root = store.root
    kept = {entry.place: entry for entry in journal.keep}
    wrong = [place for place, entry in kept.items() if keep_of(root, [place]) != (entry,)]
    extra = [e.place for e in journal.put if e.place not in kept and os.path.lexists(root / e.place)]
    # A folder with other files by now, such as nvidia/ of CUDA's wheels, stays.
    left = [folder for folder in journal.created if (root / folder).is_dir() and not any((root / folder).iterdir())]
    return tuple(wrong + extra + left)


def _identity(entry: RemovedFile | AddedFile) -> tuple[int, int, int]:
    """What a file is known again by."""
    return entry.inode, entry.size, entry.mtime_ns


def taken_since(store: Store, journal: Journal) -> tuple[str, ...]:
    """Where an unfinished transaction moves files, and others have put files of theirs since."""
    known: dict[str, set[tuple[int, int, int]]] = {}
    entries: tuple[RemovedFile | AddedFile, ...] = (*journal.keep, *journal.put)
    for entry in entries:
        known.setdefault(entry.place, set()).add(_identity(entry))
    there = keep_of(store.root, (place for place in known if CACHE not in place))
    return tuple(now.place for now in there if _identity(now) not in known[now.place])


def changed_since(store: Store, journal: Journal) -> tuple[str, ...]:
    """The files of a committed transaction that others have changed since; a new file that is gone does not count."""
    root = store.root
    there = {entry.place: entry for entry in journal.put}
    changed = [now.place for now in keep_of(root, there) if _identity(now) != _identity(there[now.place])]
    taken = [entry.place for entry in journal.keep if entry.place not in there and os.path.lexists(root / entry.place)]
    lost = [e.place for index, e in enumerate(journal.keep) if not _left(store, journal, index)]
    return tuple(changed + [place for place in taken if CACHE not in place] + lost)
