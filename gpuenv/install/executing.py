"""Carries a plan out: staged beside the target, swapped in, proven, and kept or put back."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpuenv import __version__
from gpuenv.install.durable import write_out
from gpuenv.install.errors import InstallError, InstallFailed
from gpuenv.install.holdings import as_package, take_stock
from gpuenv.install.journal import Journal, State, Store
from gpuenv.install.outcomes import put_back
from gpuenv.install.planning import numbered, summary_of
from gpuenv.install.preparing import Prepared
from gpuenv.install.proving import Child, Diagnose, Diagnosed, MoreProof, proofs, working_frameworks
from gpuenv.install.records import Outcome, Phase, Plan, Proof, Result
from gpuenv.install.resolving import complaint, remedy_for
from gpuenv.install.restoring import forget_old, restore
from gpuenv.install.staged import Staged, StagedFile, broken, read_stage, same_content
from gpuenv.install.swap import (
    caches_of,
    carry_out,
    created_by,
    finish,
    folders_of,
    keep_of,
    put_of,
    touched,
)
from gpuenv.model.exit_codes import ExitCode
from gpuenv.probe.children import ChildResult, Ending

Announce = Callable[[str], None]


@dataclass(slots=True)
class Clock:
    """Where the time goes."""

    phases: list[Phase] = field(default_factory=list)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measures a part of the work, also one that fails."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.phases.append(Phase(name, time.monotonic() - started))


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
    plan = work.prepared.plan
    number = work.store.begin()
    plan = numbered(plan, number)
    try:
        staged, frameworks = _stage(work, number)
        journal = _journal(work, number, staged)
        with work.clock.phase("sync"):
            write_out(work.store.root, (work.store.root / entry.staged for entry in journal.put))
            work.store.write(journal)
    except OSError as error:
        work.store.drop(number)
        raise InstallFailed(
            f"the new files could not be put together: {error.strerror}; nothing was changed",
            remedy_for(error.strerror or ""),
        ) from error
    except KeyboardInterrupt:
        work.store.drop(number)
        work.announce("interrupted; nothing was changed")
        raise
    except BaseException:  # whatever it is: what was put together is not left behind
        work.store.drop(number)
        raise
    return _swapped(work, plan, journal, frameworks)


def _swapped(work: Work, plan: Plan, journal: Journal, frameworks: tuple[str, ...]) -> Outcome:
    """From here on the target changes; whatever goes wrong, it is put back."""
    made: tuple[Proof, ...] = ()
    try:
        with work.clock.phase("swap"):
            carry_out(work.store, journal)
            write_out(work.store.root, touched(work.store, journal))
        with work.clock.phase("proof"):
            work.announce("proving it")
            made = _prove(work, plan, frameworks)
        failed = next((proof for proof in made if proof.passed is False), None)
        if failed is None:
            work.store.mark(journal.number, State.COMMITTED)
    except OSError as error:
        return _put_back(work, plan, journal, made, f"{error.filename or 'the disk'}: {error.strerror or error}")
    except BaseException as error:  # whatever it is, an interrupt above all: the former state comes first
        work.announce(_put_back(work, plan, journal, made, type(error).__name__).message)
        raise
    if failed is not None:
        return _put_back(work, plan, journal, made, f"{failed.name}: {failed.detail}")
    finish(work.store, journal.number, State.COMMITTED)
    forget_old(work.store)
    return Outcome(
        status=Result.INSTALLED,
        exit_code=ExitCode.OK,
        message=summary_of(plan),
        transaction=journal.number,
        target=plan.target,
        plan=plan,
        proofs=made,
        phases=tuple(work.clock.phases),
        undo=plan.undo,
    )


def _stage(work: Work, number: str) -> tuple[Staged, tuple[str, ...]]:
    """Lets the installer put the wheels together in a folder of their own, and looks at every file there."""
    prepared, store = work.prepared, work.store
    stage = store.stage(number)
    stage.mkdir()
    if not prepared.plan.install:
        return Staged((), ()), ()
    lock = store.transaction(number) / "lock.txt"
    lock.write_text(prepared.lock, encoding="utf-8")
    with work.clock.phase("download and unpack"):
        work.announce(f"{prepared.plan.installer} puts {len(prepared.plan.install)} wheels together")
        result = _put_together(work, lock, stage)
    if result.ending is not Ending.EXITED or result.exit_code != 0:
        why = complaint(result)
        raise InstallFailed(f"{prepared.plan.installer} failed: {why}; nothing was changed", remedy_for(why))
    with work.clock.phase("check of files"):
        staged = read_stage(stage, prepared.holdings.scheme)
        _as_asked(prepared.plan, staged)
        bad = broken(staged.files)
    if bad:
        raise InstallFailed(f"{len(bad)} files are not what their RECORD says, {bad[0]} first; nothing was changed")
    with work.clock.phase("imports before"):
        there = [as_package(entry) for entry in prepared.holdings.visible]
        frameworks = working_frameworks(work.child, there)
    return staged, frameworks


def _put_together(work: Work, lock: Path, stage: Path) -> ChildResult:
    """Runs the installer's commands in turn until one works; each starts with an empty folder."""
    caller = work.prepared.caller
    first, *others = caller.installer.staging(caller.options, lock, stage)
    result = caller.run(first, _lines(work.announce))
    for command in others:
        if result.ending is Ending.EXITED and result.exit_code == 0:
            break
        shutil.rmtree(stage)
        stage.mkdir()
        result = caller.run(command, _lines(work.announce))
    return result


def _as_asked(plan: Plan, staged: Staged) -> None:
    """The stage holds the planned versions, all of them and nothing else."""
    found = {entry.name: entry.release for entry in staged.distributions}
    wanted = {pin.name: pin.release for pin in plan.install}
    if found != wanted:
        odd = sorted(set(found.items()) ^ set(wanted.items()))
        raise InstallFailed(
            f"{plan.installer} installed something else than planned: {' '.join(map('=='.join, odd))}; "
            "nothing was changed"
        )


def _journal(work: Work, number: str, staged: Staged) -> Journal:
    """Which file goes where, decided before the first one moves.

    Raises:
        InstallError: when the target has changed since the plan was made.
    """
    prepared, root = work.prepared, work.store.root
    now = take_stock(prepared.holdings.scheme)
    if {e.name: e.release for e in now.visible} != {e.name: e.release for e in prepared.holdings.visible}:
        raise InstallError("the environment has changed since the plan was made; nothing was changed", "Try again.")
    leaving = dict.fromkeys((*prepared.leaving, *caches_of(root, prepared.leaving)))
    moving = [file for file in staged.files if file.place in leaving or not _is_there(root, file)]
    keep = keep_of(root, (*leaving, *(file.place for file in moving)))
    put = put_of(root, ((file.path, file.place) for file in moving))
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
        created=created_by(root, put),
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


def _put_back(work: Work, plan: Plan, journal: Journal, made: tuple[Proof, ...], why: str) -> Outcome:
    with work.clock.phase("put back"):
        missing = restore(work.store, journal)
    said = "the former state is back" if not missing else f"{len(missing)} files could not be put back"
    outcome = put_back(plan, journal, made, why, said, missing)
    return replace(outcome, phases=tuple(work.clock.phases))


def _lines(announce: Announce) -> Callable[[str], None]:
    """What the installer says of its downloads, line by line."""
    rest = ""

    def heard(text: str) -> None:
        nonlocal rest
        *lines, rest = (rest + text).split("\n")
        for line in lines:
            if line.strip().startswith(("Download", "Prepar", "Install", "Resolved", "Building")):
                announce(line.strip())

    return heard
