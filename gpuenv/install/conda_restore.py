"""The former state of a conda environment, and how to restore it.

Unlike installs of wheels, installs by conda are not recorded file by file: conda reverts to a revision, and if its
history lacks the change (the process was killed), the exact packages are installed again. In any case, only comparing
the records of the environment with the former ones decides whether it succeeded.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuenv.files import replace_file
from gpuenv.install.backends.base import complaint, succeeded
from gpuenv.install.backends.conda import CondaRefusal, CondaTool, parse_change
from gpuenv.install.conda_environment import read_history, read_packages, stems, torn_packages
from gpuenv.install.journal import Store, read_json, unreadable
from gpuenv.model.codec import DecodeError, decode, encode
from gpuenv.model.redaction import hide_secrets
from gpuenv.probe.children import ChildResult, run_child
from gpuenv.report.text import command_text

SCHEMA = "gpuenv.conda-state/1"
_FILE = "conda.json"
_EXACT = "explicit.txt"  # the missing packages by URL
_LONGEST = 3600.0  # seconds; packages may have to be downloaded again


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
