"""The former state of a conda environment beside its journal, and the way back to it: conda's own.

What conda does is not taken apart into single files, as installs of wheels are: its revisions lead back, and where the
history does not know of what happened (the process was killed), the exact packages are put in once more. Whatever was
run, the records of the environment are compared with what they were, and nothing else counts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuenv.atomic import replace_file
from gpuenv.install.backends.conda import CondaRefusal, CondaTool, parse_change
from gpuenv.install.conda_prefix import CondaPackage, read_history, read_packages, stems, wrong_files
from gpuenv.install.journal import Store, not_read
from gpuenv.install.resolving import complaint
from gpuenv.model.codec import DecodeError, decode, encode
from gpuenv.model.secrets import hide_secrets
from gpuenv.probe.children import ChildResult, Ending, run_child
from gpuenv.report.text import command_text

SCHEMA = "gpuenv.conda-state/1"
_FILE = "conda.json"
_EXACT = "explicit.txt"  # the packages that are wanting, by their addresses
_LONGEST = 3600.0  # seconds; packages may have to be downloaded once more


@dataclass(frozen=True, slots=True)
class Former:
    """A package that was there: its record's name, its own, and its address."""

    stem: str
    name: str
    url: str


@dataclass(frozen=True, slots=True)
class CondaState:
    """What a conda environment was before a transaction.

    Attributes:
        tool: what changes it, and puts it back.
        revision: the newest of its history then; null where it had none.
        packages: every package that was there.
        torn: those of them that lacked files already.
        after: the names of the records afterwards; null until the transaction is kept.
        offline: it was made without a network, and is undone without one: from what conda has in its cache.
    """

    tool: CondaTool
    revision: int | None
    packages: tuple[Former, ...]
    torn: tuple[str, ...] = ()
    after: tuple[str, ...] | None = None
    offline: bool = False
    schema: str = SCHEMA


def write_state(store: Store, number: str, state: CondaState) -> None:
    """Puts it beside the journal; when this returns it outlives a power cut.

    Raises:
        OSError: when it cannot be written.
    """
    replace_file(store.transaction(number) / _FILE, json.dumps(encode(state)), durable=True, private=True)


def read_state(store: Store, number: str) -> CondaState | None:
    """What was written there; None where the transaction is none of conda's.

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
    """Puts the former packages back. It may be done again after it was interrupted.

    Args:
        store: the journals of the environment.
        number: the transaction.
        state: what was there.
        environment: the variables that conda is run with.

    Returns:
        What is not back, and what to do about that; None where all is.
    """
    prefix, said = str(store.root), None
    for command in _ways(prefix, store.transaction(number), state):
        result = run_child([*command], state.tool.environment(environment), time.monotonic() + _LONGEST)
        if result.ending is not Ending.EXITED or result.exit_code != 0:
            said = why_not(result)
    wanted = {entry.stem for entry in state.packages}
    missing = (*sorted(wanted ^ stems(prefix)), *sorted(_torn(prefix, state)))
    return missing, _remedy(store, number, state, said) if missing else None


def why_not(result: ChildResult) -> str:
    """Why conda did not do what it was asked, in its own words."""
    try:
        parse_change(result.stdout)
    except CondaRefusal as refusal:
        return hide_secrets(str(refusal))
    except ValueError:
        pass
    return complaint(result)


def _remedy(store: Store, number: str, state: CondaState, said: str | None) -> str:
    told = f"{state.tool.label} says: {said.rstrip('.')}. " if said else ""
    exact = store.transaction(number) / _EXACT
    if not state.offline or not exact.exists():
        return f"{told}Look at what stands in its way, and try again: gpuenv rollback"
    command = command_text((state.tool.program, "install", f"--prefix={store.root}", f"--file={exact}"))
    return (
        f"{told}It was to use no network, as the install or as was asked, and its cache lacks packages. With a "
        f"network: {command}; then again: gpuenv rollback"
    )


def _ways(prefix: str, folder: Path, state: CondaState) -> Iterator[tuple[str, ...]]:
    """Each is tried where the one before has not led back."""
    tool, wanted = state.tool, {entry.stem: entry for entry in state.packages}
    newest = tool.revision(read_history(prefix))
    if stems(prefix) != set(wanted) and newest is not None and state.revision is not None and newest > state.revision:
        yield tool.reverting(prefix, state.revision, offline=state.offline)
    there, torn = stems(prefix), _torn(prefix, state)
    lost = [entry for stem, entry in wanted.items() if (stem not in there or entry.name in torn) and entry.url]
    if lost:
        file = folder / _EXACT
        replace_file(file, "".join(f"{line}\n" for line in ("@EXPLICIT", *(entry.url for entry in lost))), private=True)
        yield tool.exactly(prefix, file, offline=state.offline)
    more = sorted({entry.name for entry in read_packages(prefix).values()} - _names_of(state))
    if more:
        yield tool.removing(prefix, more)


def _torn(prefix: str, state: CondaState) -> frozenset[str]:
    """The packages that lack files, and did not before."""
    wanted = {entry.stem for entry in state.packages}
    there = (package for stem, package in read_packages(prefix).items() if stem in wanted)
    return torn_packages(prefix, there) - set(state.torn)


def torn_packages(prefix: str, packages: Iterable[CondaPackage]) -> frozenset[str]:
    """The names of those that lack files."""
    return frozenset(name for name, _ in wrong_files(prefix, packages, contents=False))


def _names_of(state: CondaState) -> frozenset[str]:
    return frozenset(entry.name for entry in state.packages)
