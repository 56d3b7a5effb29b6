"""A conda environment's records (``conda-meta/*.json``, ``history``, pixi's mark), and the way back to a former state.

What conda does is not taken apart into single files, as installs of wheels are: its revisions lead back, and where the
history does not know of what happened (the process was killed), the exact packages are installed once more. Whatever
was run, only the comparison of the environment's records with the former ones counts.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gpuenv.files import read_regular, replace_file
from gpuenv.install.backends.base import complaint, succeeded
from gpuenv.install.backends.conda import CondaRefusal, CondaTool, bare_address, parse_change
from gpuenv.install.environment import hex_digest, is_inside
from gpuenv.install.exceptions import TargetUnusable
from gpuenv.install.journal import Store, not_read
from gpuenv.model.codec import DecodeError, decode, encode
from gpuenv.model.secrets import hide_secrets
from gpuenv.probe.children import ChildResult, run_child
from gpuenv.report.text import command_text

META = "conda-meta"
_LARGEST_RECORD = 64 * 1024 * 1024
SCHEMA = "gpuenv.conda-state/1"
_FILE = "conda.json"
_EXACT = "explicit.txt"  # the packages that are wanting, by their addresses
_LONGEST = 3600.0  # seconds; packages may have to be downloaded once more


class CondaFile(NamedTuple):
    """A file of a package, with its digest where the record has one."""

    path: str
    sha256: str | None


class CondaPackage(NamedTuple):
    """An installed package."""

    stem: str  # the name of its record: name, version and build
    name: str
    release: str
    url: str  # where it came from, without passwords, and its MD5, as ``conda list --explicit`` has it
    files: tuple[CondaFile, ...]


def is_conda(prefix: str) -> bool:
    """Whether a prefix is one of conda's."""
    return Path(prefix, META).is_dir()


def read_packages(prefix: str) -> Mapping[str, CondaPackage]:
    """Every package there, by its record's name.

    Raises:
        TargetUnusable: when a record cannot be read.
    """
    found = {}
    for path in sorted(Path(prefix, META).glob("*.json")):
        try:
            found[path.stem] = _package(path.stem, json.loads(read_regular(path, _LARGEST_RECORD)))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise TargetUnusable(
                f"{path}: conda's record cannot be read: {error}", "Recreate the environment."
            ) from error
    return found


def _package(stem: str, record: Any) -> CondaPackage:  # noqa: ANN401 - JSON
    url, md5 = bare_address(str(record.get("url") or "")), record.get("md5")
    paths = (record.get("paths_data") or {}).get("paths") or [{"_path": file} for file in record.get("files") or ()]
    files = tuple(CondaFile(str(entry["_path"]), _digest(entry)) for entry in paths)
    url = f"{url}#{md5}" if url and md5 else url
    return CondaPackage(stem, str(record["name"]), str(record["version"]), url, files)


def _digest(entry: Mapping[str, Any]) -> str | None:
    """The digest of a file; one with the prefix filled in differs from the package's, and links have none."""
    if entry.get("path_type") != "hardlink":
        return None
    sha256 = entry.get("sha256_in_prefix") or (None if entry.get("prefix_placeholder") else entry.get("sha256"))
    return sha256 if isinstance(sha256, str) else None


def stems(prefix: str) -> frozenset[str]:
    """The names of the records, which are the environment's exact state."""
    return frozenset(path.stem for path in Path(prefix, META).glob("*.json"))


def read_history(prefix: str) -> str:
    """The history that conda keeps; empty where there is none."""
    try:
        return read_regular(Path(prefix, META, "history"), _LARGEST_RECORD).decode("utf-8", "replace")
    except OSError:
        return ""


def pixi_manifest(prefix: str) -> str | None:
    """The manifest of the pixi project that an environment belongs to; empty if unknown, None without pixi."""
    for mark in ("pixi", "pixi_env_prefix"):
        path = Path(prefix, META, mark)
        if path.is_file():
            try:
                written = json.loads(read_regular(path, _LARGEST_RECORD))
            except (OSError, ValueError):
                return ""
            manifest = written.get("manifest_path") if isinstance(written, dict) else None
            return manifest if isinstance(manifest, str) else ""
    return None


def wrong_files(prefix: str, packages: Iterable[CondaPackage], *, contents: bool) -> Iterator[tuple[str, str]]:
    """The files, with the names of their packages, that are missing or (``contents``) not what the records say."""
    for package in packages:
        for file in package.files:
            path = os.path.normpath(os.path.join(prefix, file.path))
            there = is_inside(path, prefix) and os.path.lexists(path)
            compared = contents and file.sha256 is not None and Path(path).is_file()
            if not there or (compared and hex_digest(path) != file.sha256):
                yield package.name, file.path


def torn_packages(prefix: str, packages: Iterable[CondaPackage]) -> frozenset[str]:
    """The names of the packages that lack files."""
    return frozenset(name for name, _ in wrong_files(prefix, packages, contents=False))


@dataclass(frozen=True, slots=True)
class FormerPackage:
    """A package that was there: its record's name, its name, and its address."""

    stem: str
    name: str
    url: str


@dataclass(frozen=True, slots=True)
class CondaState:
    """What a conda environment was before a transaction."""

    tool: CondaTool  # what changes it, and puts it back
    revision: int | None  # the newest of its history then; null where it had none
    packages: tuple[FormerPackage, ...]
    torn: tuple[str, ...] = ()  # those of them that lacked files already
    after: tuple[str, ...] | None = None  # the names of the records afterwards; null until the transaction is kept
    offline: bool = False  # made without a network, and undone without one: from what conda has in its cache
    schema: str = SCHEMA


def write_state(store: Store, number: str, state: CondaState) -> None:
    """Writes the state next to the journal, so that it outlives a power cut.

    Raises:
        OSError: when it cannot be written.
    """
    replace_file(store.transaction(number) / _FILE, json.dumps(encode(state)), durable=True, private=True)


def read_state(store: Store, number: str) -> CondaState | None:
    """The state of a transaction; None where it is not one of conda's.

    Raises:
        InstallError: when it cannot be understood.
    """
    path = store.transaction(number) / _FILE
    try:
        return decode(CondaState, json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, DecodeError, RecursionError) as error:
        raise not_read(path, "the former state", error) from error


def changed_by_others(store: Store, state: CondaState) -> tuple[str, ...]:
    """The packages that came or went since the transaction was kept."""
    return tuple(sorted(stems(str(store.root)) ^ set(state.after or ()))) if state.after is not None else ()


def go_back(
    store: Store, number: str, state: CondaState, environment: Mapping[str, str]
) -> tuple[tuple[str, ...], str | None]:
    """Puts the former packages back, with conda run in ``environment``; an interrupted call can be repeated.

    Returns:
        What is not back, and what to do about that; None where all is.
    """
    prefix, exact, reported = str(store.root), store.transaction(number) / _EXACT, ""
    for command in _ways(prefix, exact, state):
        result = run_child([*command], state.tool.environment(environment), time.monotonic() + _LONGEST)
        if not succeeded(result):
            reported = f"{state.tool.label} says: {why_not(result).rstrip('.')}. "
    wanted = {entry.stem for entry in state.packages}
    missing = (*sorted(wanted ^ stems(prefix)), *sorted(_torn(prefix, state)))
    if not missing:
        return (), None
    if not state.offline or not exact.exists():
        return missing, f"{reported}Fix what prevents it, then try again: gpuenv rollback"
    again = command_text((state.tool.program, "install", f"--prefix={store.root}", f"--file={exact}"))
    return missing, (
        f"{reported}It was to use no network, as the install or as was asked, and its cache lacks packages. "
        f"With a network: {again}; then again: gpuenv rollback"
    )


def why_not(result: ChildResult) -> str:
    """Conda's own reason for a failure."""
    try:
        parse_change(result.stdout)
    except CondaRefusal as refusal:
        return hide_secrets(str(refusal))
    except ValueError:
        pass
    return complaint(result)


def _ways(prefix: str, file: Path, state: CondaState) -> Iterator[tuple[str, ...]]:
    """The commands that lead back, each tried where the one before was not enough."""
    tool, wanted = state.tool, {entry.stem: entry for entry in state.packages}
    newest = tool.revision(read_history(prefix))
    if stems(prefix) != set(wanted) and newest is not None and state.revision is not None and newest > state.revision:
        yield tool.reverting(prefix, state.revision, offline=state.offline)
    there, torn = stems(prefix), _torn(prefix, state)
    lost = [entry for stem, entry in wanted.items() if (stem not in there or entry.name in torn) and entry.url]
    if lost:
        replace_file(file, "".join(f"{line}\n" for line in ("@EXPLICIT", *(entry.url for entry in lost))), private=True)
        yield tool.exactly(prefix, file, offline=state.offline)
    more = sorted({entry.name for entry in read_packages(prefix).values()} - {entry.name for entry in state.packages})
    if more:
        yield tool.removing(prefix, more)


def _torn(prefix: str, state: CondaState) -> frozenset[str]:
    """The packages that lack files and did not before."""
    wanted = {entry.stem for entry in state.packages}
    there = (package for stem, package in read_packages(prefix).items() if stem in wanted)
    return torn_packages(prefix, there) - set(state.torn)
