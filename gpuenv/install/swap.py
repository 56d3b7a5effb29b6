"""Moves a transaction's files: each leaves its place and comes to it by one rename, and so does the way back.

Nothing is copied and nothing is written to: a file that left is the same file when it returns, byte for byte and to its
time of change. Whatever the process dies of, each file is in one of two places, and the journal says which are they.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpuenv.install.journal import Journal, Kept, Put, State, Store
from gpuenv.install.places import below

_CACHE = "__pycache__"


def keep_of(root: Path, places: Iterable[str]) -> tuple[Kept, ...]:
    """The files and links at these places (relative to the root) as they are now; what is not there is left out."""
    found, start = [], f"{root}/"
    for place in dict.fromkeys(places):
        try:
            told = os.lstat(start + place)
        except (FileNotFoundError, NotADirectoryError):
            continue
        found.append(Kept(place, told.st_ino, told.st_size, told.st_mtime_ns))
    return tuple(found)


def put_of(root: Path, moves: Iterable[tuple[str, str]]) -> tuple[Put, ...]:
    """Staged files with the places (relative to the root) that they shall come to."""
    found = []
    for staged, place in moves:
        told = os.lstat(staged)
        found.append(Put(below(staged, str(root)), place, told.st_ino, told.st_size, told.st_mtime_ns))
    return tuple(found)


def created_by(root: Path, put: Iterable[Put]) -> tuple[str, ...]:
    """The folders that do not exist yet, outermost first."""
    found: set[str] = set()
    for folder in {os.path.dirname(entry.place) for entry in put}:
        while folder and folder not in found and not (root / folder).is_dir():
            found.add(folder)
            folder = os.path.dirname(folder)  # noqa: PLW2901 - up the tree
    return tuple(sorted(found))


def folders_of(root: Path, keep: Iterable[Kept]) -> dict[str, int]:
    """The folders up to the root that files leave, with their permissions: an empty one is removed with them."""
    found: dict[str, int] = {}
    for folder in {os.path.dirname(entry.place) for entry in keep}:
        while folder and folder not in found:
            found[folder] = (root / folder).stat().st_mode & 0o7777
            folder = os.path.dirname(folder)  # noqa: PLW2901 - up the tree
    return dict(sorted(found.items()))


def caches_of(root: Path, places: Iterable[str]) -> Iterator[str]:
    """The compiled caches of the modules among some files."""
    stems: dict[str, set[str]] = {}
    for place in places:
        folder, name = os.path.split(place)
        if name.endswith(".py"):
            stems.setdefault(folder, set()).add(name[:-3])
    for folder, names in stems.items():
        with contextlib.suppress(OSError):
            for entry in os.listdir(root / folder / _CACHE):  # noqa: PTH208 - thousands of files
                if entry.partition(".")[0] in names and entry.endswith(".pyc"):
                    yield f"{folder}/{_CACHE}/{entry}".lstrip("/")


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
    _prune(root, journal.folders)
    for folder in dict.fromkeys(os.path.dirname(entry.place) for entry in journal.put):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for coming in journal.put:
        os.rename(start + coming.staged, start + coming.place)  # noqa: PTH104 - likewise


def touched(store: Store, journal: Journal) -> Iterator[Path]:
    """The folders whose names change by a transaction."""
    names = {os.path.dirname(entry.place) for entry in journal.keep}
    names |= {os.path.dirname(entry.place) for entry in journal.put}
    names |= {os.path.dirname(folder) for folder in (*journal.created, *journal.folders)}
    yield from (store.root / name for name in sorted(names) if (store.root / name).is_dir())
    kept = store.transaction(journal.number) / "kept"
    yield from (kept, *kept.iterdir()) if kept.is_dir() else ()


def undo(store: Store, journal: Journal) -> None:
    """Puts everything back; it may be done again after it was interrupted, from the start.

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
        _remove_folder(root / folder)


def _left(store: Store, journal: Journal, index: int) -> bool:
    """Whether a file has left its place, so that what is there now, if anything, came later."""
    return os.path.lexists(store.kept(journal.number, index))


def not_back(store: Store, journal: Journal) -> tuple[str, ...]:
    """What is not as it was before; empty when all is."""
    root = store.root
    kept = {entry.place: entry for entry in journal.keep}
    wrong = [place for place, entry in kept.items() if keep_of(root, [place]) != (entry,)]
    extra = [e.place for e in journal.put if e.place not in kept and os.path.lexists(root / e.place)]
    left = [folder for folder in journal.created if (root / folder).is_dir()]
    return tuple(wrong + extra + left)


def changed_since(store: Store, journal: Journal) -> tuple[str, ...]:
    """The files of a committed transaction that somebody else has changed or put there since.

    One of the new files that is merely gone stands in nobody's way.
    """
    root = store.root
    there = {entry.place: entry for entry in journal.put}
    changed = []
    for place, entry in there.items():
        now = keep_of(root, [place])
        if now and (now[0].inode, now[0].size, now[0].mtime_ns) != (entry.inode, entry.size, entry.mtime_ns):
            changed.append(place)
    taken = [entry.place for entry in journal.keep if entry.place not in there and os.path.lexists(root / entry.place)]
    lost = [e.place for index, e in enumerate(journal.keep) if not _left(store, journal, index)]
    return tuple(changed + [place for place in taken if _CACHE not in place] + lost)


def finish(store: Store, number: str, state: State) -> None:
    """Notes that a transaction is over, and drops what it no longer needs."""
    store.mark(number, state)
    shutil.rmtree(store.stage(number), ignore_errors=True)


def _prune(root: Path, folders: Iterable[str]) -> None:
    """Removes those folders that nothing is left in, the innermost first."""
    for folder in sorted(folders, key=lambda text: text.count("/"), reverse=True):
        cache = root / folder / _CACHE
        if cache.is_dir() and len(os.listdir(root / folder)) == 1:  # noqa: PTH208 - its count
            shutil.rmtree(cache, ignore_errors=True)
        with contextlib.suppress(OSError):
            (root / folder).rmdir()


def _remove_folder(folder: Path) -> None:
    """Removes a folder that was made here, with the caches that imports have left in it."""
    shutil.rmtree(folder / _CACHE, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
