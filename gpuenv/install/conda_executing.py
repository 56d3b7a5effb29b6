"""Carries out a plan of conda's: conda changes the environment, the result is proven, and kept or undone by conda."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from gpuenv import __version__
from gpuenv.install.conda_planning import CondaPrepared
from gpuenv.install.conda_prefix import read_history, read_packages, stems, wrong_files
from gpuenv.install.conda_state import CondaState, Former, torn_packages, why_not, write_state
from gpuenv.install.errors import InstallError, InstallFailed, cut_short, told_of_disk
from gpuenv.install.holdings import as_package
from gpuenv.install.journal import Journal, State, Store
from gpuenv.install.outcomes import put_back
from gpuenv.install.planning import numbered
from gpuenv.install.proving import (
    Child,
    Diagnose,
    Diagnosed,
    MoreProof,
    doctor_proof,
    framework_proof,
    import_proof,
    timed,
    working_frameworks,
)
from gpuenv.install.records import Outcome, Plan, Proof, Result
from gpuenv.install.refusing import remedy_for
from gpuenv.install.restoring import forget_old, restore
from gpuenv.install.staging import Announce
from gpuenv.install.timing import Clock
from gpuenv.model.enumeration import enumerated
from gpuenv.model.exit_codes import ExitCode
from gpuenv.probe.children import Ending

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class CondaWork:
    """What it takes to carry a plan out.

    Attributes:
        prepared: the plan.
        store: the environment's journals; locked by the caller.
        child: how modules are imported.
        doctor: the doctor's errors before, and how it is asked again.
        announce: told what is being done.
        created_at: time of day, to be noted.
        more: further proofs.
        clock: where the time goes.
    """

    prepared: CondaPrepared
    store: Store
    child: Child
    doctor: tuple[Diagnosed, Diagnose]
    announce: Announce
    created_at: str | None
    more: tuple[MoreProof, ...] = ()
    clock: Clock = field(default_factory=Clock)


def execute_conda(work: CondaWork) -> Outcome:
    """One transaction.

    Raises:
        InstallError: when nothing was changed.
        KeyboardInterrupt: when interrupted, after the former state has been put back.
    """
    prepared, store = work.prepared, work.store
    if stems(prepared.scheme.prefix) != set(prepared.packages):
        raise InstallError("the environment has changed since the plan was made", "Try again.")
    work.clock.begin("imports before")
    frameworks = working_frameworks(work.child, [as_package(entry) for entry in prepared.visible])
    number = store.begin()
    plan = numbered(prepared.plan, number)
    state, journal = _written(work, plan, number)
    made: tuple[Proof, ...] = ()
    try:
        why = _change(work)
        if why is None:
            work.clock.begin("proof")
            work.announce("proving it")
            made = _prove(work, frameworks)
            why = next((f"{proof.name}: {proof.detail}" for proof in made if proof.passed is False), None)
        if why is None:
            write_state(store, number, replace(state, after=tuple(sorted(stems(prepared.scheme.prefix)))))
            store.mark(number, State.COMMITTED)
    except OSError as error:
        return _put_back(work, plan, journal, (made, told_of_disk(error)))
    except InstallError as error:
        return _put_back(work, plan, journal, (made, error.message))
    except BaseException as error:  # whatever it is, an interrupt above all: the former state comes first
        work.announce(_put_back(work, plan, journal, (made, cut_short(error))).message)
        raise
    work.clock.begin("tidying")
    if why is not None:
        return _put_back(work, plan, journal, (made, why))
    forget_old(store)
    return _installed(plan, journal, made)


def _written(work: CondaWork, plan: Plan, number: str) -> tuple[CondaState, Journal]:
    """What the environment was, and what is about to be done to it, on the disk.

    Raises:
        InstallFailed: when that cannot be written.
    """
    state, journal = _state(work.prepared), _journal(work, plan, number)
    work.clock.begin("journal")
    try:
        write_state(work.store, number, state)
        work.store.write(journal)
    except OSError as error:
        work.store.drop(number)
        why = told_of_disk(error)
        raise InstallFailed(f"the journal cannot be written: {why}", remedy_for(why)) from error
    return state, journal


def _installed(plan: Plan, journal: Journal, made: tuple[Proof, ...]) -> Outcome:
    return Outcome(
        status=Result.INSTALLED,
        exit_code=ExitCode.OK,
        message=journal.summary,
        transaction=journal.number,
        target=plan.target,
        plan=plan,
        proofs=made,
        undo=plan.undo,
    )


def _state(prepared: CondaPrepared) -> CondaState:
    prefix, packages = prepared.scheme.prefix, prepared.packages
    return CondaState(
        tool=prepared.caller.tool,
        revision=prepared.caller.tool.revision(read_history(prefix)),
        packages=tuple(Former(entry.stem, entry.name, entry.url) for entry in packages.values()),
        torn=tuple(sorted(torn_packages(prefix, packages.values()))),
        offline=prepared.caller.offline,
    )


def _journal(work: CondaWork, plan: Plan, number: str) -> Journal:
    coming = [f"{pin.name} {pin.release}" for pin in plan.install]
    asked = [text for text in coming if text.startswith(("cupy ", "cuda-version "))]
    shown = enumerated([*asked, *(text for text in coming if text not in asked)], _SHOWN)
    return Journal(
        number=number,
        created_at=work.created_at,
        gpuenv_version=__version__,
        summary=f"installed {shown} with {plan.installer}",
        former={entry.name: entry.release for entry in work.prepared.packages.values()},
        removed=tuple(f"{entry.name}=={entry.release}" for entry in plan.remove),
        installed=tuple(f"{pin.name}=={pin.release}" for pin in plan.install),
        keep=(),
        put=(),
        created=(),
        folders={},
    )


def _change(work: CondaWork) -> str | None:
    """Lets conda do it; answers why it did not."""
    caller, command = work.prepared.caller, work.prepared.command
    work.clock.begin("download and unpack")
    work.announce(f"{caller.tool.label} changes {len(work.prepared.plan.install)} packages")
    result = caller.run(command)
    if result.ending is Ending.EXITED and result.exit_code == 0:
        return None
    why = why_not(result)
    remedy = remedy_for(why)
    return f"{caller.tool.label} failed: {why}" + (f" {remedy}" if remedy else "")


def _prove(work: CondaWork, frameworks: tuple[str, ...]) -> tuple[Proof, ...]:
    """Every proof in turn; those after a failed one are not made."""
    prepared = work.prepared
    steps: list[Callable[[], Proof]] = [
        lambda: _as_planned(prepared),
        lambda: _files(prepared),
        lambda: import_proof(prepared.plan, work.child, prepared.scheme),
        *(partial(framework_proof, work.child, module) for module in frameworks),
        lambda: doctor_proof(*work.doctor),
        *work.more,
    ]
    made: list[Proof] = []
    for step in steps:
        made.append(timed(step))
        if made[-1].passed is False:
            break
    return tuple(made)


def _as_planned(prepared: CondaPrepared) -> Proof:
    plan = prepared.plan
    now = {entry.name: entry.release for entry in read_packages(prepared.scheme.prefix).values()}
    expected = {entry.name: entry.release for entry in prepared.packages.values()}
    for gone in plan.remove:
        expected.pop(gone.name, None)
    expected.update({pin.name: pin.release for pin in plan.install})
    wrong = _differences(expected, now)
    return Proof("as planned", not wrong, "; ".join(wrong[:_SHOWN]) or f"{len(plan.install)} packages as conda planned")


def _differences(expected: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    names = sorted({*expected, *now})
    return [
        f"{name}: {expected.get(name, 'none')} was planned, {now.get(name, 'none')} is there"
        for name in names
        if expected.get(name) != now.get(name)
    ]


def _files(prepared: CondaPrepared) -> Proof:
    coming = {pin.name for pin in prepared.plan.install}
    prefix = prepared.scheme.prefix
    packages = [entry for entry in read_packages(prefix).values() if entry.name in coming]
    wrong = [path for _, path in wrong_files(prefix, packages, contents=True)]
    return Proof(
        "files",
        not wrong,
        f"{len(wrong)} are not what conda's records say, {wrong[0]} first"
        if wrong
        else "every file is what conda's records say",
    )


def _put_back(work: CondaWork, plan: Plan, journal: Journal, what: tuple[tuple[Proof, ...], str]) -> Outcome:
    made, why = what
    work.clock.begin("put back")
    work.announce("putting the former packages back")
    back = restore(work.store, journal, work.prepared.caller.environment)
    return put_back(plan, journal, made, why, back)
