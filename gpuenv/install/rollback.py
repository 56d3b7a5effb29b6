"""Undoes a transaction that failed, was interrupted, or that the user rolls back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gpuenv.install.conda_environment import changed_by_others, go_back, read_state
from gpuenv.install.exceptions import InstallError, InstallFailed, disk_failure, disk_message
from gpuenv.install.journal import Journal, Store
from gpuenv.install.plan import (
    InstallOutcome,
    Leftover,
    Pin,
    Plan,
    PlannedCommand,
    Reason,
    Removal,
    Result,
    Space,
    TargetEnvironment,
    Verification,
)
from gpuenv.install.swap import changed_since, not_restored, taken_since, touched, undo, write_out
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.snapshot import OpenTransaction
from gpuenv.model.strings import format_size
from gpuenv.probe.transactions import TransactionState, open_transaction

_KEPT_TRANSACTIONS = 3
_LISTED = 3
_AFTER_OTHERS = "Wait for it to finish, then check and repair: gpuenv doctor --fix"
SCHEMA = "gpuenv.history/1"


class RestoreResult(NamedTuple):
    """Result of undoing a transaction: ``of`` is ``packages`` (conda) or ``files``; and those not restored."""

    of: str
    missing: tuple[str, ...]
    remedy: str | None  # if some are missing

    def __str__(self) -> str:
        shown = ", ".join(self.missing[:_LISTED])
        return f"{len(self.missing)} {self.of} could not be restored, {shown}"


def restore(
    store: Store, journal: Journal, environment: Mapping[str, str] | None = None, *, offline: bool = False
) -> RestoreResult:
    """Undoes a transaction and checks that everything is restored.

    For an install by conda, conda runs with the variables ``environment``, and ``offline`` forbids it the network even
    if the transaction used it.
    """
    conda = read_state(store, journal.number)
    folder = store.transaction(journal.number)
    remedy: str | None = (
        f"The backup is in {folder}; free space or fix the permissions, then try again: gpuenv rollback"
    )
    try:
        if conda:
            state = replace(conda, offline=conda.offline or offline)
            missing, remedy = go_back(store, journal.number, state, environment or {})
        else:
            undo(store, journal)
            write_out(store.root, touched(store, journal))
            missing = not_restored(store, journal)
    except OSError as error:
        missing = (disk_message(error),)
    except InstallError as error:
        missing = (error.message,)
    if not missing:
        store.drop(journal.number)
        remedy = None
    return RestoreResult("packages" if conda else "files", missing, remedy)


def forget_old(store: Store) -> None:
    """Deletes all but the last few transactions, so that backups do not fill the disk."""
    for number in store.numbers()[:-_KEPT_TRANSACTIONS]:
        if store.state(number) is TransactionState.COMMITTED:
            store.drop(number)


def recover(store: Store, environment: Mapping[str, str], *, offline: bool) -> tuple[str, ...]:
    """Undoes every unfinished transaction, the newest first, with ``restore``; the caller holds the lock.

    Returns:
        The numbers of those that had begun to change the environment.

    Raises:
        InstallFailed: when one cannot be undone; this blocks further installs.
    """
    found = []
    for number in reversed(store.numbers()):
        state = store.state(number)
        if state is TransactionState.COMMITTED:
            continue  # skip its journal, which may be long
        journal = store.read(number) if state is not TransactionState.UNDONE else None
        if journal is None:
            store.drop(number)
        else:
            taken = () if read_state(store, number) else taken_since(store, journal)
            if taken:
                raise InstallFailed(
                    f"an earlier install ({number}) was interrupted, and {len(taken)} of its files have been changed "
                    f"since by something else, {taken[0]} first; it was not rolled back",
                    f"If the environment works, keep it as it is: gpuenv rollback --forget {number}. Else recreate it.",
                )
            back = restore(store, journal, environment, offline=offline)
            if back.missing:
                message = f"an earlier install ({number}) was interrupted, and {back}"
                raise InstallFailed(message, back.remedy, state="")
            found.append(number)
    return tuple(found)


def committed(store: Store) -> tuple[Journal, ...]:
    """The transactions that can be rolled back, the newest first."""
    return _journals_in(store, TransactionState.COMMITTED)


def _journals_in(store: Store, *states: TransactionState) -> tuple[Journal, ...]:
    found = (store.read(number) for number in reversed(store.numbers()) if store.state(number) in states)
    return tuple(journal for journal in found if journal is not None)


def up_to(journals: Sequence[Journal], number: str | None) -> Sequence[Journal]:
    """The journals, newest first, that a rollback to ``number`` undoes; without a number, only the newest.

    Raises:
        InstallError: when there is no journal, or none with that number.
    """
    numbers = [journal.number for journal in journals]
    if not journals:
        raise InstallError("there is no install to roll back in this environment")
    if number is not None and number not in numbers:
        raise InstallError(f"there is no install {number}", "gpuenv rollback --list shows them")
    return journals[: numbers.index(number) + 1 if number is not None else 1]


def roll_back(
    store: Store, number: str | None, environment: Mapping[str, str], *, offline: bool
) -> tuple[Journal, ...]:
    """Undoes a transaction and every later one with ``restore``; without a number, only the newest.

    Raises:
        InstallError: when there is none, or other programs have changed its files since.
        InstallFailed: when something could not be restored.
    """
    undone: list[Journal] = []
    for journal in up_to(committed(store), number):
        try:
            _roll_back_one(store, journal, environment, offline=offline)
        except InstallError as error:
            if undone:
                error.state = f"before, {', '.join(entry.number for entry in undone)} was rolled back"
            raise
        undone.append(journal)
    return tuple(undone)


def _roll_back_one(store: Store, journal: Journal, environment: Mapping[str, str], *, offline: bool) -> None:
    conda = read_state(store, journal.number)
    changed = changed_by_others(store, conda) if conda else changed_since(store, journal)
    if changed:
        raise InstallFailed(
            f"{len(changed)} {'packages' if conda else 'files'} of install {journal.number} have been changed since "
            f"by something else, {changed[0]} first; it was not rolled back",
            "Install what you want instead: gpuenv install.",
        )
    try:
        store.mark(journal.number, TransactionState.UNDOING)
    except OSError as error:
        raise disk_failure("the rollback cannot be recorded", error) from error
    back = restore(store, journal, environment, offline=offline)
    if back.missing:
        raise InstallFailed(str(back), back.remedy, state="")


def failed_outcome(
    plan: Plan,
    journal: Journal,
    made: tuple[Verification, ...],
    why: str,
    back: RestoreResult,
    others: Sequence[str] = (),
) -> InstallOutcome:
    """The outcome of a failed install; ``others`` are changes by other programs meanwhile."""
    missing = back.missing
    former = "the former packages were restored" if back.of == "packages" else "the former state was restored"
    if others:
        former += f", but another program changed the environment meanwhile: {', '.join(others)}"
    return InstallOutcome(
        status=Result.RESTORED if not missing else Result.NOT_RESTORED,
        exit_code=ExitCode.FAILED,
        message=f"The install failed: {why}; {back if missing else former}.",
        transaction=None if not missing else journal.number,
        target=plan.target,
        plan=plan,
        proofs=made,
        undo=None if not missing else plan.undo,
        not_restored=missing,
        remedy=back.remedy or (_AFTER_OTHERS if others else None),
    )


@dataclass(frozen=True, slots=True)
class PastInstall:
    """An install that can be rolled back."""

    number: str  # the argument of ``gpuenv rollback``
    created_at: str | None  # by the clock of the machine
    summary: str
    removed: tuple[str, ...]  # as ``name==version``
    installed: tuple[str, ...]
    former: Mapping[str, str]  # name and version of every distribution before
    size: int | None = None  # bytes that ``gpuenv rollback --forget`` frees


@dataclass(frozen=True, slots=True)
class History:
    """The installs that can be rolled back, newest first (``gpuenv.history/1``)."""

    installs: tuple[PastInstall, ...]
    open_transaction: OpenTransaction | None = None  # interrupted; ``gpuenv rollback`` undoes it first
    schema: str = SCHEMA


def history_of(store: Store) -> History:
    """The recorded installs without their files; changes nothing."""
    return History(
        tuple(
            PastInstall(j.number, j.created_at, j.summary, j.removed, j.installed, j.former, store.size(j.number))
            for j in committed(store)
        ),
        open_transaction(store.folder) if store.folder.is_dir() else None,
    )


def unfinished(store: Store) -> tuple[Journal, ...]:
    """The interrupted transactions, the newest first."""
    return _journals_in(store, TransactionState.OPEN, TransactionState.UNDOING)


def to_forget(store: Store, number: str | None) -> tuple[str, ...]:
    """The numbers of the install to forget and of every earlier one, the oldest first; without a number, of all.

    The earlier ones cannot be undone without it.

    Raises:
        InstallError: when there is none, or an interrupted one is not named.
    """
    numbers = store.numbers()
    if number is None and (interrupted := unfinished(store)):
        (latest, *_) = interrupted
        raise InstallError(
            f"install {latest.number} was interrupted",
            "Undo it first: gpuenv rollback",
        )
    if not numbers or (number is not None and number not in numbers):
        raise InstallError(
            f"there is no install {number}" if number else "there is no install to forget in this environment",
            "gpuenv rollback --list shows them" if number else None,
        )
    return numbers[: numbers.index(number) + 1 if number is not None else None]


def plan_of_forgetting(store: Store, numbers: Sequence[str], target: TargetEnvironment) -> Plan:
    """The plan to delete what these installs keep."""
    freed = format_size(sum(map(store.size, numbers)))
    interrupted = [number for number in numbers if store.state(number) is not TransactionState.COMMITTED]
    notes = [f"this frees {freed}; these installs can then no longer be undone: {', '.join(numbers)}"]
    notes += [f"install {number} is not completed: the environment stays as it is now" for number in interrupted]
    return Plan(
        target=target,
        installer="the journal",
        requirements=(),
        remove=(),
        leftovers=tuple(Leftover(str(store.transaction(number)), Reason.KEPT_TO_UNDO) for number in numbers),
        install=(),
        moves=(),
        commands=(),
        undo=PlannedCommand("what is forgotten cannot be restored", ()),
        space=Space(0, None),
        notes=tuple(notes),
    )


def plan_of_rollback(journals: Sequence[Journal], target: TargetEnvironment, condas: Mapping[str, str]) -> Plan:
    """The plan to undo these installs, newest first.

    ``condas`` maps the numbers of installs by conda to its program; the others need no download.
    """
    installed = {
        name: release
        for journal in reversed(journals)
        for name, _, release in (text.partition("==") for text in journal.installed)
    }
    former = journals[-1].former
    coming = {text.partition("==")[0] for journal in journals for text in journal.removed}
    notes = []
    for journal in journals:
        conda = condas.get(journal.number)
        how = f"{conda} restores the former packages from its cache or its channels"
        files = f"{len(journal.put)} files are removed, and the files that they replaced restored"
        notes.append(f"install {journal.number}: {how if conda is not None else files}")
    back = tuple(Pin(name, former[name], former=installed.get(name)) for name in sorted(coming) if name in former)
    gone = tuple(Removal(name, release, Reason.CAME_WITH_INSTALL, 0) for name, release in sorted(installed.items()))
    return Plan(
        target=target,
        installer=" and ".join(dict.fromkeys(condas.get(journal.number, "the journal") for journal in journals)),
        requirements=(),
        remove=gone,
        leftovers=(),
        install=back,
        moves=(),
        commands=(),
        undo=PlannedCommand("a rollback cannot be undone: install again", ()),
        space=Space(None if condas else 0, None),
        notes=tuple(notes),
    )
