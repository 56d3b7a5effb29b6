"""From the resolver's conda specifications and a conda environment to a Plan: nothing is changed here."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuenv.install.backends.conda import CondaChange, CondaRefusal, CondaTool, parse_change
from gpuenv.install.conda_prefix import CondaPackage, pixi_manifest, read_packages
from gpuenv.install.environment import Installed, Scheme, read_installed
from gpuenv.install.errors import InstallFailed, NothingFits, TargetUnusable
from gpuenv.install.preparing import free_space
from gpuenv.install.records import Command, Pin, Place, Plan, Reason, Removal, Space
from gpuenv.install.refusing import remedy_for
from gpuenv.install.resolving import complaint
from gpuenv.install.timing import Patience
from gpuenv.model.lines import is_cupy
from gpuenv.model.resolution import CondaChoice
from gpuenv.model.secrets import hide_secrets
from gpuenv.probe.children import ChildGroup, ChildResult, Ending
from gpuenv.report.text import command_text

YOUNG = (
    "installing with conda is young in gpuenv: conda itself changes the environment and its revisions lead back; "
    "the former packages return, not every byte"
)
_WITH_NETWORK = "Without a network it has what its cache holds: leave out --offline, and there may be more."
# CUDA as conda-forge and NVIDIA's channel package it, and what CuPy's packages bring.
_OURS = re.compile(r"cupy|cupy-core|_*cuda.*|lib(cublas|cufft|curand|cusolver|cusparse|nvjitlink|nvrtc).*")


@dataclass(frozen=True, slots=True)
class CondaCaller:
    """Whoever runs conda.

    Attributes:
        tool: which one.
        environment: the caller's variables.
        patience: how long it may take.
        group: the children that are ended when nobody waits for them any longer.
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
    """What is put into pixi's environment goes at its next command, unless it is in the manifest.

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
    """The command that was asked in the end, whether everything was held, and the answer."""
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
    """What was asked for is there afterwards, or it comes: conda's word that all is well is held against its records.

    Raises:
        InstallFailed: when it would not be.
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
