"""What an installer has put into the stage: its distributions, whether they are whole, and where their files belong."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gpuenv.install.environment import Installed, Scheme, read_installed
from gpuenv.install.errors import InstallFailed
from gpuenv.install.places import below, is_inside
from gpuenv.install.record_file import Entry, digest, read_record
from gpuenv.model.record import dataclass

_THREADS = 4
_UNCHECKED = ("/RECORD", "/RECORD.jws", "/RECORD.p7s")


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file in the stage.

    Attributes:
        path: where it lies.
        place: where it belongs, relative to the root of the environment.
        entries: what the RECORDs that name it say of it.
    """

    path: str
    place: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Staged:
    """Everything in the stage."""

    distributions: tuple[Installed, ...]
    files: tuple[StagedFile, ...]


def read_stage(stage: Path, scheme: Scheme) -> Staged:
    """The distributions in the stage and the places of their files.

    Raises:
        InstallFailed: when a distribution has no RECORD, or names a file that is not there or belongs outside.
    """
    folders = sorted({str(path.parent) for path in _metadata_folders(stage)})
    found = read_installed(folders)
    entries: dict[str, tuple[str, list[Entry]]] = {}
    for distribution in found:
        folder = packages_folder(distribution, stage, scheme)
        record = read_record(distribution.metadata)
        if record is None:
            raise InstallFailed(f"{distribution.name}: its wheel brought no RECORD that can be read")
        for entry in record:
            path = os.path.normpath(os.path.join(distribution.folder, entry.path))
            place = _place(distribution, entry, path, folder, (str(stage), scheme.root))
            if not os.path.lexists(path):
                raise InstallFailed(f"{distribution.name}: {entry.path} is in its RECORD and was not installed")
            entries.setdefault(place, (path, []))[1].append(entry)
    files = tuple(StagedFile(path, place, tuple(said)) for place, (path, said) in entries.items())
    return Staged(found, files)


def broken(files: Sequence[StagedFile]) -> tuple[str, ...]:
    """The files that are not what their RECORD says, by size and digest."""
    shares = [files[start::_THREADS] for start in range(_THREADS)]  # a task a file would cost more than its digest
    with ThreadPoolExecutor(_THREADS) as pool:
        found = pool.map(lambda share: [file.place for file in share if not _is_right(file)], shares)
        return tuple(sorted(place for places in found for place in places))


def same_content(one: str, other: str) -> bool:
    """Whether two files hold the same."""
    try:
        return os.path.getsize(one) == os.path.getsize(other) and digest(one) == digest(other)  # noqa: PTH202
    except OSError:
        return False


def _is_right(file: StagedFile) -> bool:
    if os.path.islink(file.path):  # noqa: PTH114
        return False
    if file.path.endswith(_UNCHECKED):
        return True
    known = [entry for entry in file.entries if entry.sha256 is not None]
    if not known:
        return True
    found = digest(file.path)
    return any(entry.sha256 == found for entry in known)


def _metadata_folders(stage: Path) -> Iterator[Path]:
    for folder, names, _ in os.walk(stage):
        found = [name for name in names if name.endswith(".dist-info")]
        yield from (Path(folder, name) for name in found)
        if found:
            names.clear()


def _place(distribution: Installed, entry: Entry, staged: str, folder: str, roots: tuple[str, str]) -> str:
    """The place of a RECORD's path, relative to the root of the environment.

    Args:
        distribution: whose it is.
        entry: the line of its RECORD.
        staged: where the file lies.
        folder: the folder of the environment that the distribution belongs in.
        roots: of the stage and of the environment.
    """
    stage, root = roots
    path = os.path.normpath(os.path.join(folder, entry.path))
    if entry.path.startswith("/") or not is_inside(path, root) or not is_inside(staged, stage):
        raise InstallFailed(f"{distribution.name}: its RECORD names a place outside of the environment: {entry.path!r}")
    return below(path, root)


def packages_folder(distribution: Installed, stage: Path, scheme: Scheme) -> str:
    """The folder of the environment that a staged distribution belongs in, by the one that it lies in."""
    relation = os.path.relpath(distribution.folder, stage)
    by_relation: Mapping[str, str] = {os.path.relpath(p, scheme.root): p for p in (scheme.purelib, scheme.platlib)}
    return by_relation.get(relation, scheme.purelib)
