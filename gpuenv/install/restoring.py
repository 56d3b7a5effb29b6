"""Puts a transaction back, whichever way it went, and forgets the oldest."""

from __future__ import annotations

from collections.abc import Mapping

from gpuenv.install.conda_state import go_back, read_state
from gpuenv.install.durable import write_out
from gpuenv.install.errors import told_of_disk
from gpuenv.install.journal import Journal, State, Store
from gpuenv.install.swap import not_back, touched, undo

_KEPT_TRANSACTIONS = 3


def restore(store: Store, journal: Journal, environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Puts a transaction's files back and looks whether they are; what is not back is answered.

    Args:
        store: the journals of the environment.
        journal: the transaction.
        environment: the variables that conda is run with, where the transaction was one of conda's.
    """
    conda = read_state(store, journal.number)
    try:
        missing = go_back(store, journal.number, conda, environment or {}) if conda else _move_back(store, journal)
    except OSError as error:
        missing = (told_of_disk(error),)
    if not missing:
        store.drop(journal.number)
    return missing


def _move_back(store: Store, journal: Journal) -> tuple[str, ...]:
    undo(store, journal)
    write_out(store.root, touched(store, journal))
    return not_back(store, journal)


def forget_old(store: Store) -> None:
    """Keeps the last few transactions, so that what they keep does not fill the disk."""
    for number in store.numbers()[:-_KEPT_TRANSACTIONS]:
        if store.state(number) is State.COMMITTED:
            store.drop(number)
