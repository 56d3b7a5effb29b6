"""Puts back what an install left unfinished, and rolls back what one has finished."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpuenv.install.conda_state import changed_by_others, read_state
from gpuenv.install.errors import InstallError, InstallFailed, told_of_disk
from gpuenv.install.journal import Journal, State, Store
from gpuenv.install.paths import root_with_journals
from gpuenv.install.refusing import remedy_for
from gpuenv.install.restoring import restore
from gpuenv.install.swap import changed_since

_LISTED = 3


def store_of(interpreter: str) -> Store | None:
    """The journals of the environment that an interpreter belongs to, be the interpreter gone or not."""
    root = root_with_journals(interpreter)
    return Store(Path(root)) if root is not None else None


def recover(store: Store, environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Puts back every unfinished transaction, the newest first; the caller holds the lock.

    Args:
        store: the journals of the environment.
        environment: the variables that conda is run with, where it has to be.

    Returns:
        The numbers of those that had begun to change the environment.

    Raises:
        InstallFailed: when one cannot be put back; nothing else may be done before.
    """
    found = []
    for number in reversed(store.numbers()):
        state = store.state(number)
        if state is State.COMMITTED:
            continue  # its journal may be long, and is not needed
        journal = store.read(number) if state is not State.UNDONE else None
        if journal is None:
            store.drop(number)
        else:
            _put_back(store, journal, environment)
            found.append(number)
    return tuple(found)


def _put_back(store: Store, journal: Journal, environment: Mapping[str, str] | None) -> None:
    missing = restore(store, journal, environment)
    if missing:
        shown = ", ".join(missing[:_LISTED])
        raise InstallFailed(
            f"an earlier install ({journal.number}) was interrupted, and {len(missing)} files could not be put back: "
            f"{shown}",
            f"What was kept lies in {store.transaction(journal.number)}; make room or rights, and try again.",
            stands="",
        )


def committed(store: Store) -> tuple[Journal, ...]:
    """The transactions that can be rolled back, the newest first."""
    found = (store.read(number) for number in reversed(store.numbers()) if store.state(number) is State.COMMITTED)
    return tuple(journal for journal in found if journal is not None)


def roll_back(store: Store, number: str | None, environment: Mapping[str, str] | None = None) -> tuple[Journal, ...]:
    """Undoes a transaction and every later one; the newest alone where no number is given.

    Args:
        store: the journals of the environment.
        number: which one.
        environment: the variables that conda is run with, where it has to be.

    Raises:
        InstallError: when there is none, or others have changed its files since.
        InstallFailed: when something could not be put back.
    """
    there = committed(store)
    numbers = [journal.number for journal in there]
    if not there:
        raise InstallError("there is no install to roll back in this environment")
    if number is not None and number not in numbers:
        raise InstallError(f"there is no install {number}", f"one of {', '.join(reversed(numbers))}")
    last = numbers.index(number) if number is not None else 0
    undone: list[Journal] = []
    for journal in there[: last + 1]:
        try:
            _roll_back_one(store, journal, environment)
        except InstallError as error:
            if undone:
                error.stands = f"before, {', '.join(entry.number for entry in undone)} was rolled back"
            raise
        undone.append(journal)
    return tuple(undone)


def _roll_back_one(store: Store, journal: Journal, environment: Mapping[str, str] | None) -> None:
    conda = read_state(store, journal.number)
    changed = changed_by_others(store, conda) if conda else changed_since(store, journal)
    if changed:
        raise InstallFailed(
            f"{len(changed)} {'packages' if conda else 'files'} of install {journal.number} have been changed since "
            f"by something else, {changed[0]} first; it was not rolled back",
            "Install what you want instead: gpuenv install.",
        )
    try:
        store.mark(journal.number, State.UNDOING)
    except OSError as error:
        why = told_of_disk(error)
        raise InstallFailed(f"the rollback cannot be noted: {why}", remedy_for(why)) from error
    missing = restore(store, journal, environment)
    if missing:
        shown = ", ".join(missing[:_LISTED])
        raise InstallFailed(
            f"{len(missing)} {'packages' if conda else 'files'} could not be put back: {shown}", stands=""
        )
