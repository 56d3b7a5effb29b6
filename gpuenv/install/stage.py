"""The stage: where the installer puts the new distributions together, and what is checked of them there."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from gpuenv.install.backends.base import complaint
from gpuenv.install.backends.uv import Uv
from gpuenv.install.environment import Entry, Installed, Scheme, digest, read_installed, read_record
from gpuenv.install.errors import CacheAtFault, InstallFailed
from gpuenv.install.paths import below, is_inside
from gpuenv.install.plan import Plan
from gpuenv.install.planner import Prepared
from gpuenv.install.solver import cure
from gpuenv.probe.children import ChildResult, Ending

_THREADS = 4
_UNCHECKED = ("/RECORD", "/RECORD.jws", "/RECORD.p7s")
_LINKS = "They are links into a cache, and end with it: unset UV_LINK_MODE, or change link-mode in uv.toml."
_UNPACKED = "error: Failed to install"  # uv 0.13.9: all was downloaded or in the cache, and is no wheel
_NO_CACHE = "UV_NO_CACHE"
Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file in the stage.

    Attributes:
        path: where it lies.
        place: where it belongs, relative to the root of the environment.
        status: its status (lstat).
        entries: what the RECORDs that name it say of it.
    """

    path: str
    place: str
    status: os.stat_result
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
    found = read_installed(sorted({str(path.parent) for path in _metadata_folders(stage)}))
    files: dict[str, tuple[str, os.stat_result, list[Entry]]] = {}
    for distribution in found:
        folder = packages_folder(distribution, stage, scheme)
        record = read_record(distribution.metadata)
        if record is None:
            raise InstallFailed(f"{distribution.name}: its wheel brought no RECORD that can be read")
        for entry in record:
            path = os.path.normpath(os.path.join(distribution.folder, entry.path))
            target = os.path.normpath(os.path.join(folder, entry.path))
            outside = not is_inside(target, scheme.root) or not is_inside(path, str(stage))
            if outside or entry.path.startswith("/"):
                raise InstallFailed(
                    f"{distribution.name}: its RECORD names a place outside of the environment: {entry.path!r}"
                )
            place = below(target, scheme.root)
            if place not in files:
                try:
                    files[place] = (path, os.lstat(path), [])
                except (OSError, ValueError) as error:
                    raise InstallFailed(
                        f"{distribution.name}: {entry.path} is in its RECORD and was not installed"
                    ) from error
            files[place][2].append(entry)
    return Staged(found, tuple(StagedFile(path, at, status, tuple(e)) for at, (path, status, e) in files.items()))


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
    if not stat.S_ISREG(file.status.st_mode):
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


def packages_folder(distribution: Installed, stage: Path, scheme: Scheme) -> str:
    """The folder of the environment that a staged distribution belongs in, by the one that it lies in."""
    relation = os.path.relpath(distribution.folder, stage)
    by_relation: Mapping[str, str] = {os.path.relpath(p, scheme.root): p for p in (scheme.purelib, scheme.platlib)}
    return by_relation.get(relation, scheme.purelib)


def put_together(prepared: Prepared, folder: Path, stage: Path, announce: Announce) -> None:
    """Lets the installer fill the stage, an empty folder in that of the transaction.

    Raises:
        InstallFailed: when it does not come to its end; CacheAtFault where the wheels are there and no wheels.
    """
    lock = folder / "lock.txt"
    lock.write_text(prepared.lock, encoding="utf-8")
    announce(f"{prepared.plan.installer} puts {len(prepared.plan.install)} wheels together")
    result = _filled(prepared, lock, stage, announce)
    if result.ending is not Ending.EXITED or result.exit_code != 0:
        why = complaint(result)
        kind = CacheAtFault if _UNPACKED in result.stderr else InstallFailed
        raise kind(f"{prepared.plan.installer} failed: {why}", cure(why, prepared.caller))


def without_cache(prepared: Prepared) -> Prepared | None:
    """The same plan without uv's cache, whose files may be those of environments; None for all other installers."""
    caller = prepared.caller
    if not isinstance(caller.installer, Uv) or caller.options.offline or caller.environment.get(_NO_CACHE):
        return None
    return replace(prepared, caller=replace(caller, environment={**caller.environment, _NO_CACHE: "1"}))


def _filled(prepared: Prepared, lock: Path, stage: Path, announce: Announce) -> ChildResult:
    """Runs the installer's commands in turn until one works; each starts with an empty folder."""
    caller = prepared.caller.settled()
    first, *others = caller.installer.staging(caller.options, lock, stage)
    result = caller.run(first, _progress(announce))
    for command in others:
        if result.ending is Ending.EXITED and result.exit_code == 0:
            break
        shutil.rmtree(stage)
        stage.mkdir()
        result = caller.run(command, _progress(announce))
    return result


def checked(prepared: Prepared, stage: Path) -> Staged:
    """What is in the stage: the planned versions and nothing else, every file as its RECORD says.

    Raises:
        InstallFailed: when it is anything else.
    """
    staged = read_stage(stage, prepared.holdings.scheme)
    _as_asked(prepared.plan, staged)
    bad = broken(staged.files)
    if bad:
        message = f"{len(bad)} files are not what their RECORD says, {bad[0]} first"
        if any(stat.S_ISLNK(file.status.st_mode) for file in staged.files):
            raise InstallFailed(message, _LINKS)
        raise CacheAtFault(message)
    return staged


def _as_asked(plan: Plan, staged: Staged) -> None:
    """The stage holds the planned versions, all of them and nothing else."""
    found = {entry.name: entry.release for entry in staged.distributions}
    wanted = {pin.name: pin.release for pin in plan.install}
    if found != wanted:
        odd = sorted(set(found.items()) ^ set(wanted.items()))
        raise InstallFailed(f"{plan.installer} installed something else than planned: {' '.join(map('=='.join, odd))}")


def _progress(announce: Announce) -> Callable[[str], None]:
    """Announces the installer's progress, line by line."""
    rest = ""

    def heard(text: str) -> None:
        nonlocal rest
        *lines, rest = (rest + text).split("\n")
        for line in lines:
            if line.strip().startswith(("Download", "Prepar", "Install", "Resolved", "Building")):
                announce(line.strip())

    return heard
