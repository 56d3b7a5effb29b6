"""Carries a plan out: staged beside the target, swapped in, proven, and kept or put back."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
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
from gpuenv.install.verify import ANOTHER, CONSISTENT, Child, Diagnose, Diagnosed, MoreProof, proofs, working_frameworks
from gpuenv.model.exit_codes import ExitCode


@dataclass(frozen=True, slots=True)
class Work:
    """What it takes to carry a plan out.

    Attributes:
        prepared: the plan.
        store: the target's journals; locked by the caller.
        child: how modules are imported.
        before: the doctor's errors before.
        diagnose: the doctor, asked again afterwards.
        more: further proofs: the smoke test, where there is a GPU.
        announce: told what is being done.
        created_at: time of day, to be noted.
        clock: where the time goes.
    """

    prepared: Prepared
    store: Store
    child: Child
    before: Diagnosed
    diagnose: Diagnose
    announce: Announce
    created_at: str | None
    more: tuple[MoreProof, ...] = ()
    clock: Clock = field(default_factory=Clock)


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
    return _swapped(work, plan, journal, frameworks)


def _made_ready(work: Work, number: str) -> tuple[Journal, tuple[str, ...]]:
    """The new files, whole and on the disk, and the journal of what shall go where; nothing of the target has moved.

    Which frameworks can be imported is asked while the installer works, and the disk writes while files are checked.
    """
    stage = work.store.stage(number)
    stage.mkdir()
    if not work.prepared.plan.install:
        return _written(work, number, Staged((), ()), None), ()
    with ThreadPoolExecutor(1) as beside:
        asked: Future[tuple[str, ...]] = beside.submit(_frameworks, work)
        try:
            try:
                return _put_together(work, work.prepared, number, asked)
            except CacheAtFault:
                afresh = without_cache(work.prepared)
                if afresh is None:
                    raise
                work.announce("what the installer's cache holds is damaged: once more without it")
                shutil.rmtree(stage)
                stage.mkdir()
                return _put_together(work, afresh, number, asked)
        except BaseException:
            work.child.group.close()  # nobody waits for an import any longer
            raise


def _put_together(
    work: Work, prepared: Prepared, number: str, asked: Future[tuple[str, ...]]
) -> tuple[Journal, tuple[str, ...]]:
    store, stage = work.store, work.store.stage(number)
    work.clock.begin("download and unpack")
    put_together(prepared, store.transaction(number), stage, work.announce)
    work.clock.begin("check of files")
    writing = Writing(store.root, everything_in(stage))
    try:
        staged = checked(prepared, stage)
        work.clock.begin("imports before")
        frameworks = asked.result()
        return _written(work, number, staged, writing), frameworks
    finally:
        writing.stop()


def _frameworks(work: Work) -> tuple[str, ...]:
    return working_frameworks(work.child, [as_package(entry) for entry in work.prepared.holdings.visible])


def _written(work: Work, number: str, staged: Staged, writing: Writing | None) -> Journal:
    """The journal, on the disk after the files that it names."""
    work.clock.begin("journal")
    journal = _journal(work, number, staged)
    work.clock.begin("sync")
    if writing is not None:
        writing.finish()
    work.store.write(journal)
    return journal


def _swapped(work: Work, plan: Plan, journal: Journal, frameworks: tuple[str, ...]) -> Outcome:
    """From here on the target changes; whatever goes wrong, it is put back.

    What was moved is written to the disk while it is proven, and kept once both are done.
    """
    made: tuple[Proof, ...] = ()
    try:
        work.clock.begin("swap")
        carry_out(work.store, journal)
        writing = Writing(work.store.root, touched(work.store, journal))
        work.clock.begin("proof")
        work.announce("proving it")
        made = _prove(work, plan, frameworks)
        failed = next((proof for proof in made if proof.passed is False), None)
        work.clock.begin("sync")
        writing.finish()
        if failed is None:
            work.store.mark(journal.number, State.COMMITTED)
    except OSError as error:
        return _put_back(work, plan, journal, made, told_of_disk(error))
    except InstallError as error:
        return _put_back(work, plan, journal, made, error.message)
    except BaseException as error:  # whatever it is, an interrupt above all: the former state comes first
        work.announce(_put_back(work, plan, journal, made, cut_short(error)).message)
        raise
    if failed is not None:
        done = _put_back(work, plan, journal, made, f"{failed.name}: {failed.detail}")
        return replace(done, remedy=done.remedy or _remedy(work, failed))
    work.clock.begin("tidying")
    clear_stage(work.store, journal.number)
    forget_old(work.store)
    return Outcome(
        status=Result.INSTALLED,
        exit_code=ExitCode.OK,
        message=summary_of(plan),
        transaction=journal.number,
        target=plan.target,
        plan=plan,
        proofs=made,
        undo=plan.undo,
    )


def _journal(work: Work, number: str, staged: Staged) -> Journal:
    """Which file goes where, decided before the first one moves.

    Raises:
        InstallError: when the target has changed since the plan was made.
    """
    prepared, root = work.prepared, work.store.root
    now = take_stock(prepared.holdings.scheme)
    if {e.name: e.release for e in now.visible} != {e.name: e.release for e in prepared.holdings.visible}:
        raise InstallError("the environment has changed since the plan was made", "Try again.")
    leaving = dict.fromkeys((*prepared.leaving, *caches_of(root, prepared.leaving)))
    created = created_by(root, (file.place for file in staged.files))
    there_is_none = frozenset(created)
    new = {file.place for file in staged.files if os.path.dirname(file.place) in there_is_none}
    moving = [f for f in staged.files if f.place in new or f.place in leaving or not _is_there(root, f)]
    keep = keep_of(root, (*leaving, *(file.place for file in moving if file.place not in new)))
    put = put_of(root, moving)
    plan = prepared.plan
    return Journal(
        number=number,
        created_at=work.created_at,
        gpuenv_version=__version__,
        summary=summary_of(plan),
        former={entry.name: entry.release for entry in prepared.holdings.visible},
        removed=tuple(f"{entry.name}=={entry.release}" for entry in plan.remove),
        installed=tuple(f"{pin.name}=={pin.release}" for pin in plan.install),
        keep=keep,
        put=put,
        created=created,
        folders=folders_of(root, keep),
    )


def _is_there(root: Path, file: StagedFile) -> bool:
    """Whether a file that stays, of somebody else's, holds the same: it is left where it is."""
    place = f"{root}/{file.place}"
    return os.path.isfile(place) and not os.path.islink(place) and same_content(file.path, place)  # noqa: PTH113, PTH114


def _prove(work: Work, plan: Plan, frameworks: tuple[str, ...]) -> tuple[Proof, ...]:
    files = Proof("files", True, "every file is what its RECORD says")
    made = proofs(plan, work.prepared.holdings, work.child, frameworks, (work.before, work.diagnose))
    if all(proof.passed is not False for proof in made):
        made = (*made, *(more() for more in work.more))
    return (files, *made) if plan.install else made


def _remedy(work: Work, failed: Proof) -> str | None:
    """What an installer has left out, it was told to leave out, mostly; what is imported instead can be taken away."""
    if failed.detail.startswith(ANOTHER):
        return "Remove that one, or take its folder off PYTHONPATH or out of the .pth file that names it."
    return look_at_settings(work.prepared.caller, failed.detail) if failed.name == CONSISTENT else None


def _put_back(work: Work, plan: Plan, journal: Journal, made: tuple[Proof, ...], why: str) -> Outcome:
    work.clock.begin("put back")
    back = restore(work.store, journal)
    return failed_outcome(plan, journal, made, why, back, () if back.missing else _meanwhile(work, journal))


def _meanwhile(work: Work, journal: Journal) -> tuple[str, ...]:
    """What is there otherwise than before although all is put back: somebody else was at work on the environment."""
    try:
        now = {entry.name: entry.release for entry in take_stock(work.prepared.holdings.scheme).visible}
    except InstallError:
        return ()
    odd = sorted(name for name in {*now, *journal.former} if now.get(name) != journal.former.get(name))
    return tuple(f"{name} {now[name]}" if name in now else f"no {name}" for name in odd)


def put_of(root: Path, files: Iterable[StagedFile]) -> tuple[Put, ...]:
    """Staged files with the places that they shall come to."""
    base = str(root)
    return tuple(
        Put(below(file.path, base), file.place, file.status.st_ino, file.status.st_size, file.status.st_mtime_ns)
        for file in files
    )


def created_by(root: Path, places: Iterable[str]) -> tuple[str, ...]:
    """The folders that do not exist yet and that files at these places need, outermost first."""
    found: set[str] = set()
    for folder in set(map(os.path.dirname, places)):
        while folder and folder not in found and not (root / folder).is_dir():
            found.add(folder)
            folder = os.path.dirname(folder)  # noqa: PLW2901 - up the tree
    return tuple(sorted(found))


def folders_of(root: Path, keep: Iterable[Kept]) -> dict[str, int]:
    """The folders up to the root that files leave, with their permissions: an empty one is removed with them."""
    found: dict[str, int] = {}
    for folder in {os.path.dirname(entry.place) for entry in keep}:
        while folder and folder not in found:
            found[folder] = (root / folder).stat().st_mode & 0o7777
            folder = os.path.dirname(folder)  # noqa: PLW2901 - up the tree
    return dict(sorted(found.items()))


def caches_of(root: Path, places: Iterable[str]) -> Iterator[str]:
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
