"""Plans and carries out an install by conda: conda changes the environment; the result is verified, kept or undone."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from gpuenv import __version__
from gpuenv.install.backends.base import Patience, complaint, succeeded
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
from gpuenv.install.environment import Installed, Scheme, read_installed
from gpuenv.install.errors import InstallError, InstallFailed, NothingFits, TargetUnusable, disk_failure, remedy_for
from gpuenv.install.journal import Journal
from gpuenv.install.plan import Command, Outcome, Place, Plan, Proof, Reason, Removal, Space
from gpuenv.install.planner import free_space, numbered, undo_command
from gpuenv.install.rollback import failed_outcome, restore
from gpuenv.install.transaction import Work, keep_or_put_back
from gpuenv.install.verify import (
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
from gpuenv.model.strings import join_words
from gpuenv.probe.children import ChildGroup, ChildResult, Ending
from gpuenv.report.text import command_text

_YOUNG = (
    "installing with conda is young in gpuenv: conda itself changes the environment and its revisions lead back; "
    "the former packages return, not every byte"
)
_WITH_NETWORK = "Without a network it has what its cache holds: leave out --offline, and there may be more."
# CUDA as conda-forge and NVIDIA's channel package it, and what CuPy's packages bring.
_OURS = re.compile(r"cupy|cupy-core|_*cuda.*|lib(cublas|cufft|curand|cusolver|cusparse|nvjitlink|nvrtc).*")
_SHOWN = 3


class CondaCaller(NamedTuple):
    """A run of conda: which one, the user's variables, how long it may take, its children, and whether offline."""

    tool: CondaTool
    environment: Mapping[str, str]
    patience: Patience
    group: ChildGroup
    offline: bool

    def run(self, command: Sequence[str]) -> ChildResult:
        """Runs conda with the user's own settings."""
        return self.patience.run(command, self.tool.environment(self.environment), self.group)


@dataclass(frozen=True, slots=True)
class CondaPrepared:
    """A plan and what it takes to carry it out."""

    plan: Plan
    command: tuple[str, ...]  # what changes the environment
    scheme: Scheme
    packages: Mapping[str, CondaPackage]  # those that were there, by their records' names
    visible: tuple[Installed, ...]  # the Python distributions that were there
    caller: CondaCaller


def prepare_conda(scheme: Scheme, caller: CondaCaller, choice: CondaChoice) -> CondaPrepared:
    """The plan to install these specifications; first so that nothing else moves.

    Raises:
        InstallError: when there can be no plan.
    """
    prefix = scheme.prefix
    refuse_pixi(prefix, choice)
    visible = read_installed(scheme.path)
    for entry in visible:
        if is_cupy(entry.name) and entry.installer != "conda" and os.path.realpath(entry.folder) in scheme.own_folders:
            remedy = command_text((scheme.executable, "-m", "pip", "uninstall", entry.name))
            raise TargetUnusable(
                f"pip or uv has put {entry.name} {entry.release} there, whose files conda's cupy would overwrite",
                f"Remove it first: {remedy}; or stay with wheels: gpuenv install --installer uv",
            )
    if not os.access(Path(prefix, "conda-meta"), os.W_OK | os.X_OK):
        raise TargetUnusable(f"{prefix}: the environment cannot be written", "Install as a user who may write there.")
    packages = read_packages(prefix)
    asking, hold, change = _ask(prefix, caller, choice)
    _refuse_silence(caller.tool, choice.specs, change, packages)
    command = caller.tool.installing(
        prefix, choice.specs, choice.channel, dry_run=False, offline=caller.offline, hold=hold
    )
    there = {entry.name: entry for entry in packages.values()}
    coming = {pin.name for pin in change.link}
    install = tuple(replace(pin, former=there[pin.name].release if pin.name in there else None) for pin in change.link)
    remove = tuple(
        Removal(name, release, Reason.REPLACED if name in coming else Reason.CONDA_SAYS, len(there[name].files))
        for name, release in change.unlink.items()
        if name in there
    )
    moving = [pin.name for pin in install if pin.former not in (None, pin.release)]
    moving += [entry.name for entry in remove if entry.name not in coming]
    plan = Plan(
        target=Place(scheme.executable, prefix, prefix, "conda"),
        installer=caller.tool.label,
        requirements=choice.specs,
        remove=remove,
        leftovers=(),
        install=install,
        moves=tuple(name for name in dict.fromkeys(moving) if not _OURS.fullmatch(name)),
        commands=(Command("ask what would change", asking), Command("let conda change the environment", command)),
        undo=undo_command(scheme),
        space=Space(change.fetch, free_space(prefix)),
        notes=(_YOUNG,),
    )
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


def execute_conda(prepared: CondaPrepared, work: Work) -> Outcome:
    """One transaction.

    Raises:
        InstallError: when nothing was changed.
        KeyboardInterrupt: when interrupted, after the former state has been put back.
    """
    caller, store, prefix = prepared.caller, work.store, prepared.scheme.prefix
    if stems(prefix) != set(prepared.packages):
        raise InstallError("the environment has changed since the plan was made", "Try again.")
    work.clock.begin("imports before")
    frameworks = working_frameworks(work.child, prepared.visible)
    number = store.begin()
    plan = numbered(prepared.plan, number)
    coming = [f"{pin.name} {pin.release}" for pin in plan.install]
    named = [text for text in coming if text.startswith(("cupy ", "cuda-version "))]
    shown = join_words([*named, *(text for text in coming if text not in named)], _SHOWN)
    journal = Journal(
        number=number,
        created_at=work.created_at,
        gpuenv_version=__version__,
        summary=f"installed {shown} with {plan.installer}",
        former={entry.name: entry.release for entry in prepared.packages.values()},
        removed=tuple(f"{entry.name}=={entry.release}" for entry in plan.remove),
        installed=tuple(f"{pin.name}=={pin.release}" for pin in plan.install),
        keep=(),
        put=(),
        created=(),
        folders={},
    )
    state = CondaState(
        tool=caller.tool,
        revision=caller.tool.revision(read_history(prefix)),
        packages=tuple(Former(entry.stem, entry.name, entry.url) for entry in prepared.packages.values()),
        torn=tuple(sorted(torn_packages(prefix, prepared.packages.values()))),
        offline=caller.offline,
    )
    work.clock.begin("journal")
    try:
        write_state(store, number, state)
        store.write(journal)
    except OSError as error:
        store.drop(number)
        raise disk_failure("the journal cannot be written", error) from error

    def change(made: list[Proof]) -> None:
        work.clock.begin("download and unpack")
        work.announce(f"{caller.tool.label} changes {len(plan.install)} packages")
        result = caller.run(prepared.command)
        if not succeeded(result):
            why = why_not(result)
            remedy = remedy_for(why)
            raise InstallFailed(f"{caller.tool.label} failed: {why}" + (f" {remedy}" if remedy else ""))
        work.clock.begin("proof")
        work.announce("proving it")
        steps: list[Callable[[], Proof]] = [
            lambda: _as_planned(prepared),
            lambda: _files_proof(prepared),
            lambda: import_proof(plan, work.child, prepared.scheme),
            *(partial(framework_proof, work.child, module) for module in frameworks),
            lambda: doctor_proof(work.doctor),
            *work.more,
        ]
        made += until_one_fails(map(timed, steps))
        if all(proof.passed is not False for proof in made):
            write_state(store, number, replace(state, after=tuple(sorted(stems(prefix)))))

    def put_back(made: tuple[Proof, ...], why: str, failed: Proof | None) -> Outcome:
        del failed
        work.clock.begin("put back")
        work.announce("putting the former packages back")
        return failed_outcome(plan, journal, made, why, restore(store, journal, caller.environment))

    return keep_or_put_back(work, plan, journal, change, put_back)


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
    right = "every file is what conda's records say"
    return Proof(
        "files", not wrong, f"{len(wrong)} are not what conda's records say, {wrong[0]} first" if wrong else right
    )
