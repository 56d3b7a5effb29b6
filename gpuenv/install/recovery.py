"""Puts back what an install left unfinished, and rolls back what one has finished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gpuenv.install.conda_state import changed_by_others, read_state
from gpuenv.install.errors import InstallError, InstallFailed, told_of_disk
from gpuenv.install.journal import Journal, State, Store
from gpuenv.install.paths import root_with_journals
from gpuenv.install.refusing import remedy_for
from gpuenv.install.restoring import restore
from gpuenv.install.swap import changed_since, taken_since


def store_of(interpreter: str) -> Store | None:
    """The journals of the environment that an interpreter belongs to, be the interpreter gone or not."""
    root = root_with_journals(interpreter)
    return Store(Path(root)) if root is not None else None


def recover(store: Store, environment: Mapping[str, str] | None = None, *, offline: bool = False) -> tuple[str, ...]:
    """Puts back every unfinished transaction, the newest first; the caller holds the lock.

    Args:
        store: the journals of the environment.
        environment: the variables that conda is run with, where it has to be.
        offline: conda may use no network.

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
            _put_back(store, journal, environment, offline=offline)
            found.append(number)
    return tuple(found)


def _put_back(store: Store, journal: Journal, environment: Mapping[str, str] | None, *, offline: bool) -> None:
    taken = () if read_state(store, journal.number) else taken_since(store, journal)
    if taken:
        raise InstallFailed(
            f"an earlier install ({journal.number}) was interrupted, and {len(taken)} of its files have been changed "
            f"since by something else, {taken[0]} first; it was not put back",
            f"Where the environment works as it is, remove {store.transaction(journal.number)}, and it stays so. Else "
            "make it anew.",
        )
    back = restore(store, journal, environment, offline=offline)
    if back.missing:
        told = f"an earlier install ({journal.number}) was interrupted, and {back}"
        raise InstallFailed(told, back.remedy, stands="")


def committed(store: Store) -> tuple[Journal, ...]:
    """The transactions that can be rolled back, the newest first."""
    found = (store.read(number) for number in reversed(store.numbers()) if store.state(number) is State.COMMITTED)
    return tuple(journal for journal in found if journal is not None)


def up_to(there: Sequence[Journal], number: str | None) -> Sequence[Journal]:
    """Those that a rollback undoes: the newest, or one and every later one.

    Args:
        there: what can be rolled back, the newest first.
        number: down to which one; None for the newest alone.

    Raises:
        InstallError: when there is none, or none of that number.
    """
    numbers = [journal.number for journal in there]
    if not there:
        raise InstallError("there is no install to roll back in this environment")
    if number is not None and number not in numbers:
        raise InstallError(f"there is no install {number}", "gpuenv rollback --list shows them")
    return there[: numbers.index(number) + 1 if number is not None else 1]


def roll_back(
    store: Store, number: str | None, environment: Mapping[str, str] | None = None, *, offline: bool = False
) -> tuple[Journal, ...]:
    """Undoes a transaction and every later one; the newest alone where no number is given.

    Args:
        store: the journals of the environment.
        number: which one.
        environment: the variables that conda is run with, where it has to be.
        offline: conda may use no network.

    Raises:
        InstallError: when there is none, or others have changed its files since.
        InstallFailed: when something could not be put back.
    """
    undone: list[Journal] = []
    for journal in up_to(committed(store), number):
        try:
            _roll_back_one(store, journal, environment, offline=offline)
        except InstallError as error:
            if undone:
                error.stands = f"before, {', '.join(entry.number for entry in undone)} was rolled back"
            raise
        undone.append(journal)
    return tuple(undone)


def _roll_back_one(store: Store, journal: Journal, environment: Mapping[str, str] | None, *, offline: bool) -> None:
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
    back = restore(store, journal, environment, offline=offline)
    if back.missing:
        raise InstallFailed(str(back), back.remedy, stands="")
