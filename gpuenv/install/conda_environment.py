"""Reads a conda environment (``conda-meta/*.json``, ``history``, pixi's marker), and restores a former state.

Unlike installs of wheels, installs by conda are not recorded file by file: conda reverts to a revision, and if its
history lacks the change (the process was killed), the exact packages are installed again. In any case, only comparing
the records of the environment with the former ones decides whether it succeeded.
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
from gpuenv.install.backends.conda import CondaRefusal, CondaTool, clean_url, parse_change
from gpuenv.install.environment import hex_digest, is_inside
from gpuenv.install.exceptions import TargetUnusable
from gpuenv.install.journal import LARGEST_RECORD, Store, read_json, unreadable
from gpuenv.model.codec import DecodeError, decode, encode
from gpuenv.model.redaction import hide_secrets
from gpuenv.probe.children import ChildResult, run_child
from gpuenv.report.text import command_text

META = "conda-meta"
SCHEMA = "gpuenv.conda-state/1"
_FILE = "conda.json"
_EXACT = "explicit.txt"  # the missing packages by URL
_LONGEST = 3600.0  # seconds; packages may have to be downloaded again


class CondaFile(NamedTuple):
    """A file of a package, with its digest if recorded."""

    path: str
    sha256: str | None


class CondaPackage(NamedTuple):
    """An installed package."""

    stem: str  # the name of its record: name, version and build
    name: str
    release: str
    url: str  # without passwords, with the MD5, as in ``conda list --explicit``
    files: tuple[CondaFile, ...]


def is_conda(prefix: str) -> bool:
    """Whether a prefix is a conda environment."""
    return Path(prefix, META).is_dir()


def read_packages(prefix: str) -> Mapping[str, CondaPackage]:
    """The installed packages, by the names of their records.

    Raises:
        TargetUnusable: when a record cannot be read.
    """
    found = {}
    for path in sorted(Path(prefix, META).glob("*.json")):
        try:
            found[path.stem] = _package(path.stem, read_json(path))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise TargetUnusable(
                f"{path}: conda's record cannot be read: {error}", "Recreate the environment."
            ) from error
    return found


def _package(stem: str, record: Any) -> CondaPackage:  # noqa: ANN401 - JSON
    url, md5 = clean_url(str(record.get("url") or "")), record.get("md5")
    paths = (record.get("paths_data") or {}).get("paths") or [{"_path": file} for file in record.get("files") or ()]
    files = tuple(CondaFile(str(entry["_path"]), _digest(entry)) for entry in paths)
    url = f"{url}#{md5}" if url and md5 else url
    return CondaPackage(stem, str(record["name"]), str(record["version"]), url, files)


def _digest(entry: Mapping[str, Any]) -> str | None:
    """The digest of a file with the prefix filled in, if recorded; links have none."""
    if entry.get("path_type") != "hardlink":
        return None
    sha256 = entry.get("sha256_in_prefix") or (None if entry.get("prefix_placeholder") else entry.get("sha256"))
    return sha256 if isinstance(sha256, str) else None


def stems(prefix: str) -> frozenset[str]:
    """The names of the records, which identify the exact state of the environment."""
    return frozenset(path.stem for path in Path(prefix, META).glob("*.json"))


def read_history(prefix: str) -> str:
    """Conda's history file; empty without one."""
    try:
        return read_regular(Path(prefix, META, "history"), LARGEST_RECORD).decode("utf-8", "replace")
    except OSError:
        return ""


def pixi_manifest(prefix: str) -> str | None:
    """The manifest of an environment's pixi project; empty if unknown, None without pixi."""
    for marker in ("pixi", "pixi_env_prefix"):
        path = Path(prefix, META, marker)
        if path.is_file():
            try:
                written = read_json(path)
            except (OSError, ValueError):
                return ""
            manifest = written.get("manifest_path") if isinstance(written, dict) else None
            return manifest if isinstance(manifest, str) else ""
    return None


def wrong_files(prefix: str, packages: Iterable[CondaPackage], *, contents: bool) -> Iterator[tuple[str, str]]:
    """The files, with their packages, that are missing or, with ``contents``, differ from the records."""
    for package in packages:
        for file in package.files:
            path = os.path.normpath(os.path.join(prefix, file.path))
            exists = is_inside(path, prefix) and os.path.lexists(path)
            compared = contents and file.sha256 is not None and Path(path).is_file()
            if not exists or (compared and hex_digest(path) != file.sha256):
                yield package.name, file.path


def torn_packages(prefix: str, packages: Iterable[CondaPackage]) -> frozenset[str]:
    """The names of packages with missing files."""
    return frozenset(name for name, _ in wrong_files(prefix, packages, contents=False))


@dataclass(frozen=True, slots=True)
class FormerPackage:
    """A formerly installed package: the name of its record, its name, and its URL."""

    stem: str
    name: str
    url: str


@dataclass(frozen=True, slots=True)
class CondaState:
    """The state of a conda environment before a transaction."""

    tool: CondaTool  # changes and restores the environment
    revision: int | None  # newest revision before; null without a history
    packages: tuple[FormerPackage, ...]
    torn: tuple[str, ...] = ()  # packages that already lacked files
    after: tuple[str, ...] | None = None  # names of the records afterwards; null until it is committed
    offline: bool = False  # installed offline, so restored from conda's cache
    schema: str = SCHEMA


def write_state(store: Store, number: str, state: CondaState) -> None:
    """Writes the state next to the journal, durably.

    Raises:
        OSError: when it cannot be written.
    """
    replace_file(store.transaction(number) / _FILE, json.dumps(encode(state)), durable=True, private=True)


def read_state(store: Store, number: str) -> CondaState | None:
    """Reads the state of a transaction; None if it did not use conda.

    Raises:
        InstallError: when it is invalid.
    """
    path = store.transaction(number) / _FILE
    try:
        return decode(CondaState, read_json(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, DecodeError, RecursionError) as error:
        raise unreadable(path, "the former state", error) from error


def changed_by_others(store: Store, state: CondaState) -> tuple[str, ...]:
    """The packages that were added or removed since the transaction was committed."""
    return tuple(sorted(stems(str(store.root)) ^ set(state.after or ()))) if state.after is not None else ()


def go_back(
    store: Store, number: str, state: CondaState, environment: Mapping[str, str]
) -> tuple[tuple[str, ...], str | None]:
    """Restores the former packages by running conda in ``environment``; an interrupted call can be repeated.

    Returns:
        The packages that are not restored, and the remedy; None if all are.
    """
    prefix, exact, reported = str(store.root), store.transaction(number) / _EXACT, ""
    for command in _restore_commands(prefix, exact, state):
        result = run_child([*command], state.tool.environment(environment), time.monotonic() + _LONGEST)
        if not succeeded(result):
            reported = f"{state.tool.label} reports: {failure_reason(result).rstrip('.')}. "
    wanted = {entry.stem for entry in state.packages}
    missing = (*sorted(wanted ^ stems(prefix)), *sorted(_torn(prefix, state)))
    if not missing:
        return (), None
    if not state.offline or not exact.exists():
        return missing, f"{reported}Fix what prevents it, then try again: gpuenv rollback"
    again = command_text((state.tool.program, "install", f"--prefix={store.root}", f"--file={exact}"))
    return missing, (
        f"{reported}It was offline, like the install or by --offline, and its cache lacks packages. "
        f"With a network: {again}; then again: gpuenv rollback"
    )


def failure_reason(result: ChildResult) -> str:
    """Conda's reason for a failure."""
    try:
        parse_change(result.stdout)
    except CondaRefusal as refusal:
        return hide_secrets(str(refusal))
    except ValueError:
        pass
    return complaint(result)


def _restore_commands(prefix: str, file: Path, state: CondaState) -> Iterator[tuple[str, ...]]:
    """The commands that restore the former state, each tried if the previous one did not suffice."""
    tool, wanted = state.tool, {entry.stem: entry for entry in state.packages}
    newest = tool.revision(read_history(prefix))
    if stems(prefix) != set(wanted) and newest is not None and state.revision is not None and newest > state.revision:
        yield tool.revert_command(prefix, state.revision, offline=state.offline)
    present, torn = stems(prefix), _torn(prefix, state)
    lost = [entry for stem, entry in wanted.items() if (stem not in present or entry.name in torn) and entry.url]
    if lost:
        replace_file(file, "".join(f"{line}\n" for line in ("@EXPLICIT", *(entry.url for entry in lost))), private=True)
        yield tool.explicit_command(prefix, file, offline=state.offline)
    more = sorted({entry.name for entry in read_packages(prefix).values()} - {entry.name for entry in state.packages})
    if more:
        yield tool.remove_command(prefix, more)


def _torn(prefix: str, state: CondaState) -> frozenset[str]:
    """The packages that lack files and did not before."""
    wanted = {entry.stem for entry in state.packages}
    packages = (package for stem, package in read_packages(prefix).items() if stem in wanted)
    return torn_packages(prefix, packages) - set(state.torn)
