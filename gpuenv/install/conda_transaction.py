"""Plans and carries out an install by conda: conda changes the environment; the result is verified, kept or undone."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gpuenv import __version__
from gpuenv.install.backends.base import Patience, complaint
from gpuenv.install.backends.conda import CondaChange, CondaRefusal, CondaTool, parse_change
from gpuenv.install.conda_environment import (
    CondaPackage,
    CondaState,
    Former,
    pixi_manifest,
    read_history,
    read_packages,
    stems,
    torn_packages,
    why_not,
    write_state,
    wrong_files,
)
from gpuenv.install.environment import Installed, Scheme, as_package, read_installed
from gpuenv.install.errors import (
    InstallError,
    InstallFailed,
    NothingFits,
    TargetUnusable,
    remedy_for,
    told_of_disk,
)
from gpuenv.install.journal import Journal
from gpuenv.install.plan import Command, Outcome, Pin, Place, Plan, Proof, Reason, Removal, Space
from gpuenv.install.planner import free_space, numbered
from gpuenv.install.rollback import failed_outcome, restore
from gpuenv.install.transaction import Transaction, keep_or_put_back
from gpuenv.install.verify import (
    Diagnose,
    Diagnosed,
    doctor_proof,
    framework_proof,
    import_proof,
    timed,
    until_one_fails,
    working_frameworks,
)
from gpuenv.model.cupy import is_cupy
from gpuenv.model.resolution import CondaChoice
from gpuenv.model.secrets import hide_secrets
from gpuenv.model.text import enumerated
from gpuenv.probe.children import ChildGroup, ChildResult, Ending
from gpuenv.report.text import command_text

YOUNG = (
    "installing with conda is young in gpuenv: conda itself changes the environment and its revisions lead back; "
    "the former packages return, not every byte"
)
_WITH_NETWORK = "Without a network it has what its cache holds: leave out --offline, and there may be more."
# CUDA as conda-forge and NVIDIA's channel package it, and what CuPy's packages bring.
_OURS = re.compile(r"cupy|cupy-core|_*cuda.*|lib(cublas|cufft|curand|cusolver|cusparse|nvjitlink|nvrtc).*")
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class CondaCaller:
    """A run of conda.

    Attributes:
        tool: which one.
        environment: the user's variables.
        patience: how long it may take.
        group: the children that are ended with this run.
        offline: no network.
    """

    tool: CondaTool
    environment: Mapping[str, str]
    patience: Patience
    group: ChildGroup
    offline: bool = False

    def run(self, command: Sequence[str]) -> ChildResult:
        """Runs conda with the user's own settings."""
        return self.patience.run(command, self.tool.environment(self.environment), self.group)


@dataclass(frozen=True, slots=True)
class CondaPrepared:
    """A plan and what it takes to carry it out.

    Attributes:
        plan: what is shown.
        command: what changes the environment.
        scheme: its folders.
        packages: the packages that were there, by their records' names.
        visible: the Python distributions that were there.
        caller: who runs conda.
    """

    plan: Plan
    command: tuple[str, ...]
    scheme: Scheme
    packages: Mapping[str, CondaPackage]
    visible: tuple[Installed, ...]
    caller: CondaCaller


def prepare_conda(scheme: Scheme, caller: CondaCaller, choice: CondaChoice) -> CondaPrepared:
    """The plan to install these specifications; first so that nothing else moves.

    Raises:
        InstallError: when there can be no plan.
    """
    prefix = scheme.prefix
    refuse_pixi(prefix, choice)
    visible = read_installed(scheme.path)
    _refuse_wheels(visible, scheme)
    if not os.access(Path(prefix, "conda-meta"), os.W_OK | os.X_OK):
        raise TargetUnusable(f"{prefix}: the environment cannot be written", "Install as a user who may write there.")
    packages = read_packages(prefix)
    asking, hold, change = _ask(prefix, caller, choice)
    _refuse_silence(caller.tool, choice.specs, change, packages)
    told = {"offline": caller.offline, "hold": hold}
    command = caller.tool.installing(prefix, choice.specs, choice.channel, dry_run=False, **told)
    commands = (Command("ask what would change", asking), Command("let conda change the environment", command))
    plan = _plan(scheme, caller, choice.specs, (change, packages), commands)
    return CondaPrepared(plan, command, scheme, packages, visible, caller)


def refuse_pixi(prefix: str, choice: CondaChoice) -> None:
    """Refuses pixi's environments: what is not in the manifest goes at pixi's next command.

    Raises:
        TargetUnusable: with the right command, where the environment is pixi's.
    """
    manifest = pixi_manifest(prefix)
    if manifest is None:
        return
    where = (f"--manifest-path={manifest}",) if manifest else ()
    raise TargetUnusable(
        f"{prefix} belongs to a pixi project: pixi makes it what its manifest says, and takes out all else",
        f"Let pixi do it: {command_text(('pixi', 'add', *where, *choice.specs))}",
    )


def _refuse_wheels(visible: tuple[Installed, ...], scheme: Scheme) -> None:
    folders = {os.path.realpath(scheme.purelib), os.path.realpath(scheme.platlib)}
    for entry in visible:
        if is_cupy(entry.name) and entry.installer != "conda" and os.path.realpath(entry.folder) in folders:
            remedy = command_text((scheme.executable, "-m", "pip", "uninstall", entry.name))
            raise TargetUnusable(
                f"pip or uv has put {entry.name} {entry.release} there, whose files conda's cupy would overwrite",
                f"Remove it first: {remedy}; or stay with wheels: gpuenv install --installer uv",
            )


def _ask(prefix: str, caller: CondaCaller, choice: CondaChoice) -> tuple[tuple[str, ...], bool, CondaChange]:
    """Conda's answer, with the command and whether everything else was held."""
    why = ""
    for hold in (True, False):
        command = caller.tool.installing(
            prefix, choice.specs, choice.channel, dry_run=True, offline=caller.offline, hold=hold
        )
        result = caller.run(command)
        if result.ending is not Ending.EXITED:
            raise InstallFailed(f"{caller.tool.label} could not tell what would change: {complaint(result)}")
        try:
            return command, hold, parse_change(result.stdout)
        except CondaRefusal as refusal:
            why = hide_secrets(str(refusal))
            lacking = caller.offline and refusal.absent
            if lacking or not refusal.unfit:
                raise InstallFailed(
                    f"{caller.tool.label} could not tell what would change: {why}",
                    _WITH_NETWORK if lacking else remedy_for(why),
                ) from refusal
        except ValueError as error:
            why = complaint(result) if result.exit_code else str(error)
            raise InstallFailed(f"{caller.tool.label} gave an answer that is not understood: {why}") from error
    raise NothingFits(
        f"{' '.join(choice.specs)} cannot be installed beside what the environment holds. {why}",
        f"Install into an environment of its own: {caller.tool.family} create -n NAME python, then "
        "gpuenv install --python its folder." + (f" {_WITH_NETWORK}" if caller.offline else ""),
    )


def _refuse_silence(
    tool: CondaTool, specs: tuple[str, ...], change: CondaChange, packages: Mapping[str, CondaPackage]
) -> None:
    """Refuses an answer that leaves a specification unmet: conda's word is checked against its own records.

    Raises:
        InstallFailed: when it would be.
    """
    after = {entry.name: entry.release for entry in packages.values() if entry.name not in change.unlink}
    after.update({pin.name: pin.release for pin in change.link})
    for spec in specs:
        name, _, wanted = spec.partition("=")
        found = after.get(name)
        if found is None or not f"{found}.".startswith(f"{wanted.strip('=*.')}."):
            told = f"{name} would be {found}" if found else f"{name} would not be there"
            raise InstallFailed(
                f"{tool.label} says that {spec} can be installed, and by what else it says {told}",
                f"Look at what it answers: {command_text((tool.program, 'install', '--dry-run', spec))}",
            )


def _plan(
    scheme: Scheme,
    caller: CondaCaller,
    specs: tuple[str, ...],
    change: tuple[CondaChange, Mapping[str, CondaPackage]],
    commands: tuple[Command, ...],
) -> Plan:
    answer, packages = change
    there = {entry.name: entry for entry in packages.values()}
    coming = {pin.name for pin in answer.link}
    install = tuple(
        Pin(pin.name, pin.release, pin.sha256, pin.size, there[pin.name].release if pin.name in there else None)
        for pin in answer.link
    )
    remove = tuple(
        Removal(name, release, Reason.REPLACED if name in coming else Reason.CONDA_SAYS, len(there[name].files))
        for name, release in answer.unlink.items()
        if name in there
    )
    moving = {pin.name: pin.former for pin in install if pin.former not in (None, pin.release)}
    moving.update({entry.name: entry.release for entry in remove if entry.name not in coming})
    return Plan(
        target=Place(scheme.executable, scheme.prefix, scheme.prefix, "conda"),
        installer=caller.tool.label,
        requirements=specs,
        remove=remove,
        leftovers=(),
        install=install,
        moves=tuple(name for name in moving if not _OURS.fullmatch(name)),
        commands=commands,
        undo=Command("put the former state back", ("gpuenv", "rollback", "--python", scheme.prefix)),
        space=Space(answer.fetch, free_space(scheme.prefix)),
        notes=(YOUNG,),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CondaWork(Transaction):
    """A plan for conda, and the doctor's errors before with how the doctor is run again."""

    prepared: CondaPrepared
    doctor: tuple[Diagnosed, Diagnose]


def execute_conda(work: CondaWork) -> Outcome:
    """One transaction.

    Raises:
        InstallError: when nothing was changed.
        KeyboardInterrupt: when interrupted, after the former state has been put back.
    """
    prepared, store, prefix = work.prepared, work.store, work.prepared.scheme.prefix
    if stems(prefix) != set(prepared.packages):
        raise InstallError("the environment has changed since the plan was made", "Try again.")
    work.clock.begin("imports before")
    frameworks = working_frameworks(work.child, [as_package(entry) for entry in prepared.visible])
    number = store.begin()
    plan = numbered(prepared.plan, number)
    journal = _journal(work, plan, number)
    state = CondaState(
        tool=prepared.caller.tool,
        revision=prepared.caller.tool.revision(read_history(prefix)),
        packages=tuple(Former(entry.stem, entry.name, entry.url) for entry in prepared.packages.values()),
        torn=tuple(sorted(torn_packages(prefix, prepared.packages.values()))),
        offline=prepared.caller.offline,
    )
    work.clock.begin("journal")
    try:
        write_state(store, journal.number, state)
        store.write(journal)
    except OSError as error:
        store.drop(journal.number)
        why = told_of_disk(error)
        raise InstallFailed(f"the journal cannot be written: {why}", remedy_for(why)) from error

    def change(made: list[Proof]) -> None:
        _change(work)
        work.clock.begin("proof")
        work.announce("proving it")
        shown = tuple(until_one_fails(map(timed, _steps(work, frameworks))))
        made += shown
        if all(proof.passed is not False for proof in shown):
            write_state(store, journal.number, replace(state, after=tuple(sorted(stems(prefix)))))

    def put_back(made: tuple[Proof, ...], why: str, failed: Proof | None) -> Outcome:
        del failed
        work.clock.begin("put back")
        work.announce("putting the former packages back")
        return failed_outcome(plan, journal, made, why, restore(store, journal, prepared.caller.environment))

    return keep_or_put_back(work, plan, journal, change, put_back)


def _journal(work: CondaWork, plan: Plan, number: str) -> Journal:
    coming = [f"{pin.name} {pin.release}" for pin in plan.install]
    named = [text for text in coming if text.startswith(("cupy ", "cuda-version "))]
    shown = enumerated([*named, *(text for text in coming if text not in named)], _SHOWN)
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


def _change(work: CondaWork) -> None:
    """Lets conda change the environment.

    Raises:
        InstallFailed: when it does not.
    """
    caller = work.prepared.caller
    work.clock.begin("download and unpack")
    work.announce(f"{caller.tool.label} changes {len(work.prepared.plan.install)} packages")
    result = caller.run(work.prepared.command)
    if result.ending is not Ending.EXITED or result.exit_code != 0:
        why = why_not(result)
        remedy = remedy_for(why)
        raise InstallFailed(f"{caller.tool.label} failed: {why}" + (f" {remedy}" if remedy else ""))


def _steps(work: CondaWork, frameworks: tuple[str, ...]) -> list[Callable[[], Proof]]:
    prepared = work.prepared
    return [
        lambda: _as_planned(prepared),
        lambda: _files_proof(prepared),
        lambda: import_proof(prepared.plan, work.child, prepared.scheme),
        *(partial(framework_proof, work.child, module) for module in frameworks),
        lambda: doctor_proof(*work.doctor),
        *work.more,
    ]


def _as_planned(prepared: CondaPrepared) -> Proof:
    plan = prepared.plan
    now = {entry.name: entry.release for entry in read_packages(prepared.scheme.prefix).values()}
    expected = {entry.name: entry.release for entry in prepared.packages.values()}
    for gone in plan.remove:
        expected.pop(gone.name, None)
    expected.update({pin.name: pin.release for pin in plan.install})
    wrong = [
        f"{name}: {expected.get(name, 'none')} was planned, {now.get(name, 'none')} is there"
        for name in sorted({*expected, *now})
        if expected.get(name) != now.get(name)
    ]
    return Proof("as planned", not wrong, "; ".join(wrong[:_SHOWN]) or f"{len(plan.install)} packages as conda planned")


def _files_proof(prepared: CondaPrepared) -> Proof:
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
