"""The files of distributions that leave, by their RECORDs, and what shares files with them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from packaging.utils import canonicalize_name

from gpuenv.install.environment import Installed, Scheme
from gpuenv.install.errors import TargetUnusable
from gpuenv.install.paths import below, is_inside
from gpuenv.install.record_file import Entry, digest, read_record
from gpuenv.model.lines import is_cupy

MODULES = ("cupy", "cupyx", "cupy_backends")  # the folders that every CuPy line installs
_METADATA = ".dist-info"
_HALF_REMOVED = "~"  # pip renames what it removes to a name that begins so, and leaves it when it is interrupted


def files_of(distribution: Installed, root: str) -> tuple[str, ...]:
    """The places of its files, relative to the root of the environment.

    Raises:
        TargetUnusable: when it cannot be told which they are, or one is not the environment's.
    """
    record = read_record(distribution.metadata)
    told = f"{distribution.name} {distribution.release}"
    if distribution.installer == "conda" or (record is None and "/conda-meta" in distribution.metadata):
        raise TargetUnusable(f"{told} was installed by conda, and only conda can remove it", "Remove it with conda.")
    if record is None:
        raise TargetUnusable(
            f"{told} in {distribution.folder} has no RECORD: which files are its own is written down nowhere",
            "Remove it by hand, or make a new environment.",
        )
    real_folder = lru_cache(maxsize=None)(os.path.realpath)  # the files are thousands, their folders are not
    return tuple(_place(distribution, entry, root, real_folder) for entry in record)


def _place(distribution: Installed, entry: Entry, root: str, real_folder: Callable[[str], str]) -> str:
    path = os.path.normpath(os.path.join(distribution.folder, entry.path))
    folder, name = os.path.split(path)
    real = f"{real_folder(folder)}/{name}"
    if not is_inside(path, root) or not is_inside(real, real_folder(root)):
        raise TargetUnusable(
            f"{distribution.name}: its RECORD names a file outside of the environment: {entry.path!r}",
            "Look at how it came there; a new environment is the safe way.",
        )
    return below(path, root)


def owners(distributions: Iterable[Installed], root: str) -> dict[str, list[tuple[Installed, Entry]]]:
    """Who owns which place, as far as RECORDs tell."""
    found: dict[str, list[tuple[Installed, Entry]]] = {}
    for distribution in distributions:
        for entry in read_record(distribution.metadata) or ():
            path = os.path.normpath(os.path.join(distribution.folder, entry.path))
            if is_inside(path, root):
                found.setdefault(below(path, root), []).append((distribution, entry))
    return found


def still_owned(
    places: Iterable[str], owned: Mapping[str, Sequence[tuple[Installed, Entry]]], root: Path
) -> tuple[frozenset[str], frozenset[str]]:
    """Of files that would leave, those that somebody who stays owns too, and the owners whose file it is not."""
    stay: set[str] = set()
    overwritten: set[str] = set()
    for place in places:
        for distribution, entry in owned.get(place, ()):
            stay.add(place)
            if entry.sha256 is not None and _differs(root / place, entry.sha256):
                overwritten.add(distribution.name)
    return frozenset(stay), frozenset(overwritten)


def _differs(path: Path, sha256: str) -> bool:
    try:
        return digest(str(path)) != sha256
    except OSError:
        return True


def leftovers(scheme: Scheme, owned: Mapping[str, object]) -> tuple[str, ...]:
    """Files of CuPy's modules that no distribution owns, and what an interrupted pip has left of one."""
    found: list[str] = []
    for folder in dict.fromkeys((scheme.purelib, scheme.platlib)):
        for module in MODULES:
            found += [place for place in _files_below(folder, module, scheme.root) if place not in owned]
        for name in _listed(folder):
            if name.startswith(_HALF_REMOVED) and name[1:].replace("_", "-").startswith("upy"):
                found += list(_files_below(folder, name, scheme.root))
    return tuple(found)


def left_metadata(scheme: Scheme, own: Mapping[str, Installed], named: Collection[str]) -> tuple[str, ...]:
    """The metadata that an update or a power cut has left: those of CuPy's and of the distributions named alone.

    Another release's of a distribution that is there, or such as tell no name.
    """
    found: list[str] = []
    used = {os.path.realpath(entry.metadata) for entry in own.values()}
    for folder in dict.fromkeys((scheme.purelib, scheme.platlib)):
        for entry in _listed(folder):
            name = canonicalize_name(entry.removesuffix(_METADATA).rpartition("-")[0])
            path = Path(folder, entry)
            ours = entry.endswith(_METADATA) and (name in named or is_cupy(name))
            if ours and not path.is_symlink() and os.path.realpath(path) not in used:
                found += list(_files_below(folder, entry, scheme.root))
    return tuple(dict.fromkeys(found))


def _files_below(folder: str, name: str, root: str) -> Iterator[str]:
    for place, folders, files in os.walk(os.path.join(folder, name)):
        if "__pycache__" in folders:
            folders.remove("__pycache__")
        yield from (below(os.path.join(place, file), root) for file in files)


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names alone
    except OSError:
        return []
