"""Moves a transaction's files: each leaves its place and comes to it by one rename, and so does the way back.

Nothing is copied and nothing is written to: a file that left is the same file when it returns, byte for byte and to its
time of change. Whatever the process dies of, each file is in one of two places, and the journal says which are they. A
folder that is not there yet comes with all that it holds by one rename: thousands of files are as quick as one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from gpuenv.install.journal import Journal, Kept, Put, Store, Whole
from gpuenv.install.paths import below
from gpuenv.install.staged import StagedFile

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


def put_of(root: Path, files: Iterable[StagedFile]) -> tuple[Put, ...]:
    """Staged files with the places that they shall come to."""
    base = str(root)
    return tuple(
        Put(below(file.path, base), file.place, file.told.st_ino, file.told.st_size, file.told.st_mtime_ns)
        for file in files
    )


def created_by(root: Path, places: Iterable[str]) -> tuple[str, ...]:
    """The folders that do not exist yet and that files at these places need, outermost first."""
    found: set[str] = set()
    for folder in set(map(os.path.dirname, places)):
        while folder and folder not in found and not (root / folder).is_dir():
            found.add(folder)
            folder = os.path.dirname(folder)  # noqa: PLW2901 - up the tree
    return tuple(sorted(found))


def whole_of(root: Path, put: Iterable[Put], created: Sequence[str]) -> tuple[Whole, ...]:
    """The folders that can come by one rename each: none is at the place, and all that the staged one holds comes.

    Args:
        root: the environment.
        put: the files that come.
        created: the folders that are made for them, outermost first.
    """
    tops: dict[str, str] = {}
    for folder in created:
        tops[folder] = tops.get(os.path.dirname(folder), folder)
    coming: dict[str, list[Put]] = {}
    for entry in put:
        top = tops.get(os.path.dirname(entry.place))
        if top is not None:
            coming.setdefault(top, []).append(entry)
    found = (_whole(root, top, files) for top, files in coming.items())
    return tuple(entry for entry in found if entry is not None)


def _whole(root: Path, top: str, files: Sequence[Put]) -> Whole | None:
    staged = files[0].staged.removesuffix(files[0].place[len(top) :])
    alike = all(entry.staged == staged + entry.place[len(top) :] for entry in files)
    if not alike or _hands_on_its_group(root / os.path.dirname(top)):
        return None
    start = f"{root}/{staged}"
    expected = {f"{root}/{entry.staged}" for entry in files}
    needed = {os.path.dirname(path) for path in expected}
    for folder, folders, names in os.walk(start):
        # An empty folder, a file or a link that no RECORD knows of: the files that it does know come one by one.
        empty = not folders and folder not in needed
        linked = any(os.path.islink(f"{folder}/{name}") for name in folders)  # noqa: PTH114 - as text
        if empty or linked or not expected.issuperset(f"{folder}/{name}" for name in names):
            return None
    return Whole(staged, top)


def _hands_on_its_group(folder: Path) -> bool:
    """Whether what is made in a folder belongs to its group (set-group-ID): a folder that is moved there does not."""
    while not folder.exists():
        folder = folder.parent
    return bool(folder.stat().st_mode & stat.S_ISGID)


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
    for folder in journal.whole:
        (root / folder.place).parent.mkdir(parents=True, exist_ok=True)
        os.rename(start + folder.staged, start + folder.place)  # noqa: PTH104 - likewise
    there = tuple(f"{folder.place}/" for folder in journal.whole)
    single = [entry for entry in journal.put if not entry.place.startswith(there)]
    for name in dict.fromkeys(os.path.dirname(entry.place) for entry in single):
        (root / name).mkdir(parents=True, exist_ok=True)
    for coming in single:
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
    # A folder that somebody has put something else into since, as nvidia/ of CUDA's wheels, is theirs too.
    left = [folder for folder in journal.created if (root / folder).is_dir() and not any((root / folder).iterdir())]
    return tuple(wrong + extra + left)


def taken_since(store: Store, journal: Journal) -> tuple[str, ...]:
    """Where an unfinished transaction moves files, and somebody else has put files of theirs after it had ended."""
    root = store.root
    known: dict[str, set[tuple[int, int, int]]] = {}
    entries: tuple[Kept | Put, ...] = (*journal.keep, *journal.put)
    for entry in entries:
        known.setdefault(entry.place, set()).add((entry.inode, entry.size, entry.mtime_ns))
    there = keep_of(root, (place for place in known if _CACHE not in place))
    return tuple(now.place for now in there if (now.inode, now.size, now.mtime_ns) not in known[now.place])


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


def clear_stage(store: Store, number: str) -> None:
    """Drops what a kept transaction no longer needs."""
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
