"""Puts a transaction back, whichever way it went, and forgets the oldest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpuenv.install.conda_state import go_back, read_state
from gpuenv.install.durable import write_out
from gpuenv.install.errors import told_of_disk
from gpuenv.install.journal import Journal, State, Store
from gpuenv.install.swap import not_back, touched, undo

_KEPT_TRANSACTIONS = 3
_LISTED = 3


@dataclass(frozen=True, slots=True)
class Restored:
    """How far a transaction is put back.

    Attributes:
        of: ``packages`` of conda's, or ``files``.
        missing: those that are not back.
        remedy: what to do about them; null where all are.
    """

    of: str
    missing: tuple[str, ...] = ()
    remedy: str | None = None

    def __str__(self) -> str:
        shown = ", ".join(self.missing[:_LISTED])
        return f"{len(self.missing)} {self.of} could not be put back, {shown}"


def restore(
    store: Store, journal: Journal, environment: Mapping[str, str] | None = None, *, offline: bool = False
) -> Restored:
    """Puts a transaction's files back and looks whether they are.

    Args:
        store: the journals of the environment.
        journal: the transaction.
        environment: the variables that conda is run with, where the transaction was one of conda's.
        offline: conda may use no network, whatever the transaction did.
    """
    conda = read_state(store, journal.number)
    folder = store.transaction(journal.number)
    remedy: str | None = f"What was kept lies in {folder}; make room or rights, and try again: gpuenv rollback"
    try:
        if conda:
            way = replace(conda, offline=conda.offline or offline)
            missing, remedy = go_back(store, journal.number, way, environment or {})
        else:
            missing = _move_back(store, journal)
    except OSError as error:
        missing = (told_of_disk(error),)
    if not missing:
        store.drop(journal.number)
        remedy = None
    return Restored("packages" if conda else "files", missing, remedy)


def _move_back(store: Store, journal: Journal) -> tuple[str, ...]:
    undo(store, journal)
    write_out(store.root, touched(store, journal))
    return not_back(store, journal)


def forget_old(store: Store) -> None:
    """Keeps the last few transactions, so that what they keep does not fill the disk."""
    for number in store.numbers()[:-_KEPT_TRANSACTIONS]:
        if store.state(number) is State.COMMITTED:
            store.drop(number)
