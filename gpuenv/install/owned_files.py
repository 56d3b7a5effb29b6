"""Which distribution owns which files of the target: files to remove with it, and leftovers that none owns."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from packaging.utils import canonicalize_name

from gpuenv.install.environment import (
    InstalledDistribution,
    RecordEntry,
    Scheme,
    below,
    has_digest,
    is_inside,
    read_record,
)
from gpuenv.install.exceptions import TargetUnusable
from gpuenv.model.cupy import is_cupy

_MODULES = ("cupy", "cupyx", "cupy_backends")  # the folders that every CuPy line installs
_METADATA = ".dist-info"
_HALF_REMOVED = "~"  # pip prefixes names with it while uninstalling; an interrupt leaves them


def uninstall_remedy(name: str, root: str) -> str:
    """The remedy for a distribution that pip can remove and gpuenv cannot."""
    return f"Remove it: python3 -m pip --python {shlex.quote(root)} uninstall {name}"


def files_of(distribution: InstalledDistribution, root: str) -> tuple[str, ...]:
    """The paths of its files and metadata, relative to the root of the environment.

    For a CuPy whose RECORD is damaged, as by a power failure, only the metadata: ``leftover_files`` finds the rest.

    Raises:
        TargetUnusable: when they are unknown, or one is outside of the environment.
    """
    record = read_record(distribution.metadata)
    name = f"{distribution.name} {distribution.release}"
    if distribution.installer == "conda" or (record is None and "/conda-meta" in distribution.metadata):
        raise TargetUnusable(f"{name} was installed by conda, and only conda can remove it", "Remove it with conda.")
    has_damaged_record = not record and os.path.lexists(os.path.join(distribution.metadata, "RECORD"))
    if not record and is_cupy(distribution.name) and Path(distribution.metadata, "installed-files.txt").exists():
        raise TargetUnusable(  # built from source: pip before 23.1
            f"{name} in {distribution.folder} was installed by setup.py, without a RECORD of its files",
            uninstall_remedy(distribution.name, root),
        )
    if not record and not (has_damaged_record and is_cupy(distribution.name)):
        raise TargetUnusable(
            f"{name} in {distribution.folder} has no readable RECORD, so its files are unknown",
            f"Reinstall it: python3 -m pip --python {shlex.quote(root)} install --ignore-installed --no-deps "
            f"{distribution.name}=={distribution.release}",
        )
    real_folder = lru_cache(maxsize=None)(os.path.realpath)  # thousands of files, few folders
    metadata = _files_below(distribution.folder, Path(distribution.metadata).name, distribution.folder)
    paths = []
    for entry in dict.fromkeys((*(entry.path for entry in record or ()), *metadata)):
        path = os.path.normpath(os.path.join(distribution.folder, entry))
        folder, file = os.path.split(path)
        if not is_inside(path, root) or not is_inside(f"{real_folder(folder)}/{file}", real_folder(root)):
            raise TargetUnusable(
                f"{distribution.name}: its RECORD names a file outside of the environment: {entry!r}",
                "Find out how it got there, or create a new environment.",
            )
        paths.append(below(path, root))
    return tuple(paths)


def owners(
    distributions: Iterable[InstalledDistribution], root: str
) -> dict[str, list[tuple[InstalledDistribution, RecordEntry]]]:
    """The owners of each path, by the RECORDs of distributions."""
    found: dict[str, list[tuple[InstalledDistribution, RecordEntry]]] = {}
    for distribution in distributions:
        for entry in read_record(distribution.metadata) or ():
            path = os.path.normpath(os.path.join(distribution.folder, entry.path))
            if is_inside(path, root):
                found.setdefault(below(path, root), []).append((distribution, entry))
    return found


def files_to_remove(
    going: Mapping[str, Sequence[str]],
    owned: Mapping[str, Sequence[tuple[InstalledDistribution, RecordEntry]]],
    root: str,
) -> tuple[tuple[str, ...], frozenset[str]]:
    """The files to remove with some distributions, and the remaining distributions whose files they overwrote.

    Files that a remaining distribution also owns are kept.
    """
    leaving: list[str] = []
    overwritten: set[str] = set()
    for path in dict.fromkeys(path for files in going.values() for path in files):
        staying = [(owner.name, entry) for owner, entry in owned.get(path, ()) if owner.name not in going]
        if not staying:
            leaving.append(path)
        for name, entry in staying:
            if entry.sha256 is not None and not has_digest(f"{root}/{path}", entry.sha256):
                overwritten.add(name)
    return tuple(leaving), frozenset(overwritten)


def leftover_files(scheme: Scheme, owned: Mapping[str, object]) -> Iterator[str]:
    """Files of CuPy's modules that no distribution owns, and the remains of an interrupted uninstall by pip.

    Raises:
        TargetUnusable: when a module is a link, such as one to a checkout: its files are not the environment's.
    """
    for folder in dict.fromkeys((scheme.purelib, scheme.platlib)):
        for module in _MODULES:
            path = os.path.join(folder, module)
            if os.path.islink(path):  # noqa: PTH114 - a string, as above
                raise TargetUnusable(
                    f"{path} is a link to {os.path.realpath(path)}, in the place of the folder that CuPy installs",
                    f"Remove the link, which keeps what it leads to: rm {shlex.quote(path)}",
                )
            yield from (path for path in _files_below(folder, module, scheme.root) if path not in owned)
        for name in _listed(folder):
            if name.startswith(_HALF_REMOVED) and name[1:].replace("_", "-").startswith("upy"):
                yield from _files_below(folder, name, scheme.root)


def left_metadata(scheme: Scheme, own: Mapping[str, InstalledDistribution], named: Collection[str]) -> Iterator[str]:
    """Leftover metadata of CuPy and of the distributions ``named``, after an interrupted update or a power failure.

    It is of another release than the installed one, or has no name.
    """
    used = {os.path.realpath(entry.metadata) for entry in own.values()}
    for folder in dict.fromkeys((scheme.purelib, scheme.platlib)):
        for entry in _listed(folder):
            name = canonicalize_name(entry.removesuffix(_METADATA).rpartition("-")[0])
            path = Path(folder, entry)
            is_ours = entry.endswith(_METADATA) and (name in named or is_cupy(name))
            if is_ours and not path.is_symlink() and os.path.realpath(path) not in used:
                yield from _files_below(folder, entry, scheme.root)


def _files_below(folder: str, name: str, root: str) -> Iterator[str]:
    for parent, folders, files in os.walk(os.path.join(folder, name)):
        if "__pycache__" in folders:
            folders.remove("__pycache__")
        yield from (below(os.path.join(parent, file), root) for file in files)


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names alone
    except OSError:
        return []
