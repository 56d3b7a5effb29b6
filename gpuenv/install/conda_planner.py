"""Plans an install by conda: asks conda what would change, and refuses what the environment or the plan forbids."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from gpuenv.install.backends.base import TimeBudget, complaint
from gpuenv.install.backends.conda import CondaChange, CondaRefusal, CondaTool, parse_change
from gpuenv.install.conda_environment import CondaPackage, pixi_manifest, read_packages
from gpuenv.install.environment import InstalledDistribution, Scheme, read_installed
from gpuenv.install.exceptions import InstallFailed, NothingFits, TargetUnusable, remedy_for
from gpuenv.install.plan import Plan, PlannedCommand, Reason, Removal, Space, TargetEnvironment
from gpuenv.install.planner import free_space, undo_command
from gpuenv.matrix.companions import follows_cuda_of_conda
from gpuenv.matrix.ranges import in_range
from gpuenv.model.cupy import is_cupy
from gpuenv.model.redaction import hide_secrets
from gpuenv.model.resolution import CondaChoice
from gpuenv.probe.children import ChildGroup, ChildResult, Ending
from gpuenv.report.text import command_text

_EXPERIMENTAL = (
    "installing with conda is experimental: conda itself changes the environment, and a rollback restores "
    "the former packages, not every byte"
)
_WITH_NETWORK = "Offline, conda has only its cache; leave out --offline to search its channels."


class CondaRun(NamedTuple):
    """A run of conda: the tool, the user's variables, the time budget, the child processes, and whether offline."""

    tool: CondaTool
    environment: Mapping[str, str]
    time_budget: TimeBudget
    group: ChildGroup
    offline: bool

    def run(self, command: Sequence[str]) -> ChildResult:
        """Runs conda with the user's settings."""
        return self.time_budget.run(command, self.tool.environment(self.environment), self.group)


@dataclass(frozen=True, slots=True)
class PreparedCondaInstall:
    """A plan and the data to execute it."""

    plan: Plan
    command: tuple[str, ...]  # changes the environment
    scheme: Scheme
    packages: Mapping[str, CondaPackage]  # installed before, by the names of their records
    visible: tuple[InstalledDistribution, ...]  # Python distributions installed before
    conda_run: CondaRun


def prepare_conda(scheme: Scheme, conda_run: CondaRun, choice: CondaChoice) -> PreparedCondaInstall:
    """Plans the install of a choice, if possible without changing other packages.

    Raises:
        InstallError: when planning fails.
    """
    prefix = scheme.prefix
    visible = read_installed(scheme.path)
    for entry in visible:
        if is_cupy(entry.name) and entry.installer != "conda" and os.path.realpath(entry.folder) in scheme.own_folders:
            remedy = command_text((scheme.executable, "-m", "pip", "uninstall", entry.name))
            raise TargetUnusable(
                f"pip or uv installed {entry.name} {entry.release} there, whose files conda's cupy would overwrite",
                f"Remove it first: {remedy}; or stay with wheels: gpuenv install --installer uv",
            )
    if not os.access(Path(prefix, "conda-meta"), os.W_OK | os.X_OK):
        raise TargetUnusable(f"{prefix}: the environment is not writable", "Install as a user with write access.")
    packages = read_packages(prefix)
    query, freeze, change = _query_changes(prefix, conda_run, choice)
    _refuse_unmet(conda_run.tool, choice.specs, change, packages)
    command = conda_run.tool.install_command(
        prefix, choice.specs, choice.channel, dry_run=False, offline=conda_run.offline, freeze=freeze
    )
    installed = {entry.name: entry for entry in packages.values()}
    coming = {pin.name for pin in change.link}
    install = tuple(
        replace(pin, former=installed[pin.name].release if pin.name in installed else None) for pin in change.link
    )
    remove = tuple(
        Removal(name, release, Reason.REPLACED if name in coming else Reason.CONDA_SAYS, len(installed[name].files))
        for name, release in change.unlink.items()
        if name in installed
    )
    changed = [pin.name for pin in install if pin.former not in (None, pin.release)]
    changed += [entry.name for entry in remove if entry.name not in coming]
    plan = Plan(
        target=TargetEnvironment(scheme.executable, prefix, prefix, "conda"),
        installer=conda_run.tool.label,
        requirements=choice.specs,
        remove=remove,
        leftovers=(),
        install=install,
        moves=tuple(name for name in dict.fromkeys(changed) if not follows_cuda_of_conda(name)),
        commands=(
            PlannedCommand("query what would change", query),
            PlannedCommand("install with conda", command),
        ),
        undo=undo_command(scheme),
        space=Space(change.fetch, free_space(prefix)),
        notes=(_EXPERIMENTAL,),
    )
    return PreparedCondaInstall(plan, command, scheme, packages, visible, conda_run)


def refuse_pixi(prefix: str, choice: CondaChoice) -> None:
    """Refuses pixi environments, from which pixi removes everything that its manifest does not list.

    Raises:
        TargetUnusable: with the pixi command that installs the choice.
    """
    manifest = pixi_manifest(prefix)
    if manifest is None:
        return
    options = (f"--manifest-path={manifest}",) if manifest else ()
    raise TargetUnusable(
        f"{prefix} belongs to a pixi project: pixi removes everything that its manifest does not list",
        f"Use pixi: {command_text(('pixi', 'add', *options, *choice.specs))}",
    )


def _query_changes(prefix: str, conda_run: CondaRun, choice: CondaChoice) -> tuple[tuple[str, ...], bool, CondaChange]:
    """Runs conda's dry run; returns the command, whether it froze other packages, and the changes."""
    why = ""
    for freeze in (True, False):
        command = conda_run.tool.install_command(
            prefix, choice.specs, choice.channel, dry_run=True, offline=conda_run.offline, freeze=freeze
        )
        result = conda_run.run(command)
        if result.ending is not Ending.EXITED:
            raise InstallFailed(f"{conda_run.tool.label} could not report what would change: {complaint(result)}")
        try:
            return command, freeze, parse_change(result.stdout)
        except CondaRefusal as refusal:
            why = hide_secrets(str(refusal))
            lacking = conda_run.offline and refusal.absent
            if lacking or not refusal.unfit:
                raise InstallFailed(
                    f"{conda_run.tool.label} could not report what would change: {why}",
                    _WITH_NETWORK if lacking else remedy_for(why),
                ) from refusal
        except ValueError as error:
            why = complaint(result) if result.exit_code else str(error)
            raise InstallFailed(f"{conda_run.tool.label} printed output that gpuenv cannot read: {why}") from error
    raise NothingFits(
        f"{' '.join(choice.specs)} cannot be installed with the packages in the environment. {why}",
        f"Install into a separate environment: {conda_run.tool.family} create -n NAME python, then "
        "gpuenv install --python its folder." + (f" {_WITH_NETWORK}" if conda_run.offline else ""),
    )


def _refuse_unmet(
    tool: CondaTool, specs: tuple[str, ...], change: CondaChange, packages: Mapping[str, CondaPackage]
) -> None:
    """Refuses a dry run that leaves a specification unmet, by its own list of changes.

    Raises:
        InstallFailed: when one is unmet.
    """
    after = {entry.name: entry.release for entry in packages.values() if entry.name not in change.unlink}
    after.update({pin.name: pin.release for pin in change.link})
    for spec in specs:
        name = re.split("[=<>]", spec, maxsplit=1)[0]
        found, wanted = after.get(name), spec.removeprefix(name)
        if found is None or not _meets(found, wanted):
            result = f"{name} would be {found}" if found else f"{name} would be missing"
            raise InstallFailed(
                f"{tool.label} reports that {spec} can be installed, but by its changes {result}",
                f"Check its answer: {command_text((tool.program, 'install', '--dry-run', spec))}",
            )


def _meets(release: str, wanted: str) -> bool:
    """Whether a release meets a range, or begins with the version after ``=`` (conda's MatchSpec)."""
    if wanted.startswith("="):
        return f"{release}.".startswith(f"{wanted.strip('=*.')}.")
    return in_range(release, wanted) is True
