"""Carries a plan out: staged inside the target, swapped in, verified, and kept or put back."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpuenv import __version__
from gpuenv.install.environment import as_package, take_stock
from gpuenv.install.errors import CacheAtFault, InstallError, InstallFailed, cut_short, remedy_for, told_of_disk
from gpuenv.install.journal import Journal, Kept, Put, State, Store
from gpuenv.install.paths import below
from gpuenv.install.plan import Clock, Outcome, Plan, Proof, Result
from gpuenv.install.planner import Prepared, numbered, summary_of
from gpuenv.install.rollback import failed_outcome, forget_old, restore
from gpuenv.install.solver import look_at_settings
from gpuenv.install.stage import Announce, Staged, StagedFile, checked, put_together, same_content, without_cache
from gpuenv.install.swap import CACHE, Writing, carry_out, clear_stage, everything_in, keep_of, touched
from gpuenv.install.verify import (
    ANOTHER,
    CONSISTENT,
    Child,
    Diagnose,
    Diagnosed,
    MoreProof,
    proofs,
    working_frameworks,
)
from gpuenv.model.exit_codes import ExitCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """What every transaction needs.

    Attributes:
        store: the target's journals; locked by the caller.
        child: how modules are imported.
        announce: reports progress.
        created_at: time of day, for the journal.
        more: further verifications: the smoke test, where there is a GPU.
        clock: measures the phases.
    """

    store: Store
    child: Child
    announce: Announce
    created_at: str | None
    more: tuple[MoreProof, ...] = ()
    clock: Clock = field(default_factory=Clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(Transaction):
    """A plan for wheels, the doctor's errors before, and how the doctor is run again afterwards."""

    prepared: Prepared
    before: Diagnosed
    diagnose: Diagnose


def execute(work: Work) -> Outcome:
    """One transaction.

    Raises:
        InstallError: when it failed before anything of the target was moved.
        KeyboardInterrupt: when interrupted, after the former state has been put back.
    """
    number = work.store.begin()
    plan = numbered(work.prepared.plan, number)
    try:
        journal, frameworks = _made_ready(work, number)
    except OSError as error:
        work.store.drop(number)
        why = told_of_disk(error)
        raise InstallFailed(f"the new files could not be put together: {why}", remedy_for(why)) from error
    except KeyboardInterrupt:
        work.store.drop(number)
        work.announce("interrupted; nothing was changed")
        raise
    except BaseException:  # whatever it is: what was put together is not left behind
        work.store.drop(number)
        raise

    def change(made: list[Proof]) -> None:
        work.clock.begin("swap")
        carry_out(work.store, journal)
        writing = Writing(work.store.root, touched(work.store, journal))  # while it is verified
        work.clock.begin("proof")
        work.announce("proving it")
        shown = proofs(plan, work.prepared.holdings, work.child, frameworks, (work.before, work.diagnose))
        if all(proof.passed is not False for proof in shown):
            shown = (*shown, *(more() for more in work.more))
        made += [Proof("files", True, "every file is what its RECORD says"), *shown] if plan.install else shown
        work.clock.begin("sync")
        writing.finish()

    def put_back(made: tuple[Proof, ...], why: str, failed: Proof | None) -> Outcome:
        work.clock.begin("put back")
        back = restore(work.store, journal)
        done = failed_outcome(plan, journal, made, why, back, () if back.missing else _meanwhile(work, journal))
        return replace(done, remedy=done.remedy or _remedy(work, failed)) if failed is not None else done

    return keep_or_put_back(work, plan, journal, change, put_back)


def _made_ready(work: Work, number: str) -> tuple[Journal, tuple[str, ...]]:
    """The journal of what shall go where, the new files being complete and on the disk, and the working frameworks.

    The frameworks are imported while the installer works, and the disk writes while files are checked.
    """
    stage = work.store.stage(number)
    stage.mkdir()
    if not work.prepared.plan.install:
        return _written(work, number, Staged((), ()), None), ()
    with ThreadPoolExecutor(1) as pool:
        visible = [as_package(entry) for entry in work.prepared.holdings.visible]
        frameworks: Future[tuple[str, ...]] = pool.submit(working_frameworks, work.child, visible)
        try:
            try:
                return _put_together(work, work.prepared, number, frameworks)
            except CacheAtFault:
                afresh = without_cache(work.prepared)
                if afresh is None:
                    raise
                work.announce("what the installer's cache holds is damaged: once more without it")
                shutil.rmtree(stage)
                stage.mkdir()
                return _put_together(work, afresh, number, frameworks)
        except BaseException:
            work.child.group.close()  # ends the imports
            raise


def _put_together(
    work: Work, prepared: Prepared, number: str, frameworks: Future[tuple[str, ...]]
) -> tuple[Journal, tuple[str, ...]]:
    store, stage = work.store, work.store.stage(number)
    work.clock.begin("download and unpack")
    put_together(prepared, store.transaction(number), stage, work.announce)
    work.clock.begin("check of files")
    writing = Writing(store.root, everything_in(stage))
    try:
        staged = checked(prepared, stage)
        work.clock.begin("imports before")
        working = frameworks.result()
        return _written(work, number, staged, writing), working
    finally:
        writing.stop()


def _written(work: Work, number: str, staged: Staged, writing: Writing | None) -> Journal:
    """The journal, on the disk after the files that it names."""
    work.clock.begin("journal")
    journal = _journal(work, number, staged)
    work.clock.begin("sync")
    if writing is not None:
        writing.finish()
    work.store.write(journal)
    return journal


def _journal(work: Work, number: str, staged: Staged) -> Journal:
    """Which file goes where, decided before the first one moves.

    Raises:
        InstallError: when the target has changed since the plan was made.
    """
    prepared, root = work.prepared, work.store.root
    former = {entry.name: entry.release for entry in prepared.holdings.visible}
    if {entry.name: entry.release for entry in take_stock(prepared.holdings.scheme).visible} != former:
        raise InstallError("the environment has changed since the plan was made", "Try again.")
    leaving = dict.fromkeys((*prepared.leaving, *_caches_of(root, prepared.leaving)))
    created = _missing_folders(root, (file.place for file in staged.files))
    missing = frozenset(created)
    new = {file.place for file in staged.files if os.path.dirname(file.place) in missing}
    moving = [f for f in staged.files if f.place in new or f.place in leaving or not _is_there(root, f)]
    keep = keep_of(root, (*leaving, *(file.place for file in moving if file.place not in new)))
    plan = prepared.plan
    return Journal(
        number=number,
        created_at=work.created_at,
        gpuenv_version=__version__,
        summary=summary_of(plan),
        former=former,
        removed=tuple(f"{entry.name}=={entry.release}" for entry in plan.remove),
        installed=tuple(f"{pin.name}=={pin.release}" for pin in plan.install),
        keep=keep,
        put=tuple(
            Put(below(f.path, str(root)), f.place, f.status.st_ino, f.status.st_size, f.status.st_mtime_ns)
            for f in moving
        ),
        created=created,
        folders=_folders_of(root, keep),
    )


def _is_there(root: Path, file: StagedFile) -> bool:
    """Whether a file that stays, of another distribution's, holds the same: it is left where it is."""
    place = f"{root}/{file.place}"
    return os.path.isfile(place) and not os.path.islink(place) and same_content(file.path, place)  # noqa: PTH113, PTH114


def _missing_folders(root: Path, places: Iterable[str]) -> tuple[str, ...]:
    """The folders that files at these places need and that do not exist yet, outermost first."""
    found: set[str] = set()
    for folder in set(map(os.path.dirname, places)):
        while folder and folder not in found and not (root / folder).is_dir():
            found.add(folder)
            folder = os.path.dirname(folder)  # noqa: PLW2901 - up the tree
    return tuple(sorted(found))


def _folders_of(root: Path, keep: Iterable[Kept]) -> dict[str, int]:
    """The folders up to the root that files leave, with their permissions: an empty one is removed with them."""
    found: dict[str, int] = {}
    for folder in {os.path.dirname(entry.place) for entry in keep}:
        while folder and folder not in found:
            found[folder] = (root / folder).stat().st_mode & 0o7777
            folder = os.path.dirname(folder)  # noqa: PLW2901 - up the tree
    return dict(sorted(found.items()))


def _caches_of(root: Path, places: Iterable[str]) -> Iterator[str]:
    """The compiled caches of the modules among some files."""
    stems: dict[str, set[str]] = {}
    for place in places:
        folder, name = os.path.split(place)
        if name.endswith(".py"):
            stems.setdefault(folder, set()).add(name[:-3])
    for folder, names in stems.items():
        with contextlib.suppress(OSError):
            for entry in os.listdir(root / folder / CACHE):  # noqa: PTH208 - thousands of files
                if entry.partition(".")[0] in names and entry.endswith(".pyc"):
                    yield f"{folder}/{CACHE}/{entry}".lstrip("/")


def keep_or_put_back(
    work: Transaction,
    plan: Plan,
    journal: Journal,
    change: Callable[[list[Proof]], None],
    put_back: Callable[[tuple[Proof, ...], str, Proof | None], Outcome],
) -> Outcome:
    """Changes the target and keeps that if every verification passes; whatever goes wrong, it is put back.

    Args:
        work: the transaction's surroundings.
        plan: what is done.
        journal: on the disk already.
        change: changes the target and verifies it; it adds to the list that it is given.
        put_back: from what was verified, why it failed, and the verification that failed, to the outcome.
    """
    made: list[Proof] = []
    try:
        change(made)
        failed = next((proof for proof in made if proof.passed is False), None)
        if failed is None:
            work.store.mark(journal.number, State.COMMITTED)
    except OSError as error:
        return put_back(tuple(made), told_of_disk(error), None)
    except InstallError as error:
        return put_back(tuple(made), error.message, None)
    except BaseException as error:  # whatever it is, an interrupt above all: the former state comes first
        work.announce(put_back(tuple(made), cut_short(error), None).message)
        raise
    if failed is not None:
        return put_back(tuple(made), f"{failed.name}: {failed.detail}", failed)
    work.clock.begin("tidying")
    clear_stage(work.store, journal.number)
    forget_old(work.store)
    return Outcome(
        status=Result.INSTALLED,
        exit_code=ExitCode.OK,
        message=journal.summary,
        transaction=journal.number,
        target=plan.target,
        plan=plan,
        proofs=tuple(made),
        undo=plan.undo,
    )


def _remedy(work: Work, failed: Proof) -> str | None:
    """What an installer left out, the user's settings made it leave out, mostly; another CuPy can be removed."""
    if failed.detail.startswith(ANOTHER):
        return "Remove that one, or take its folder off PYTHONPATH or out of the .pth file that names it."
    return look_at_settings(work.prepared.caller, failed.detail) if failed.name == CONSISTENT else None


def _meanwhile(work: Work, journal: Journal) -> tuple[str, ...]:
    """What differs from before although all is put back: something else has changed the environment."""
    try:
        now = {entry.name: entry.release for entry in take_stock(work.prepared.holdings.scheme).visible}
    except InstallError:
        return ()
    odd = sorted(name for name in {*now, *journal.former} if now.get(name) != journal.former.get(name))
    return tuple(f"{name} {now[name]}" if name in now else f"no {name}" for name in odd)
