"""Plans and executes an install by conda: conda changes the environment; the result is verified, kept or undone."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from gpuenv import __version__
from gpuenv.install.backends.base import TimeBudget, complaint, succeeded
from gpuenv.install.backends.conda import CondaChange, CondaRefusal, CondaTool, parse_change
from gpuenv.install.conda_environment import (
    CondaPackage,
    CondaState,
    FormerPackage,
    failure_reason,
    pixi_manifest,
    read_history,
    read_packages,
    stems,
    torn_packages,
    write_state,
    wrong_files,
)
from gpuenv.install.disk_space import refuse_too_little
from gpuenv.install.environment import InstalledDistribution, Scheme, read_installed
from gpuenv.install.exceptions import InstallError, InstallFailed, NothingFits, TargetUnusable, disk_failure, remedy_for
from gpuenv.install.journal import Journal
from gpuenv.install.plan import (
    InstallOutcome,
    Plan,
    PlannedCommand,
    Reason,
    Removal,
    Space,
    TargetEnvironment,
    Verification,
)
from gpuenv.install.planner import free_space, numbered, undo_command
from gpuenv.install.rollback import failed_outcome, restore
from gpuenv.install.transaction import TransactionContext, commit_or_restore
from gpuenv.install.verify import (
    timed,
    until_failure,
    verify_doctor,
    verify_framework,
    verify_import,
    working_frameworks,
)
from gpuenv.matrix.companions import follows_cuda_of_conda
from gpuenv.model.cupy import is_cupy
from gpuenv.model.redaction import hide_secrets
from gpuenv.model.resolution import CondaChoice
from gpuenv.model.strings import join_words
from gpuenv.probe.children import ChildGroup, ChildResult, Ending
from gpuenv.report.text import command_text

_EXPERIMENTAL = (
    "installing with conda is experimental: conda itself changes the environment, and a rollback restores "
    "the former packages, not every byte"
)
_WITH_NETWORK = "Offline, conda has only its cache; leave out --offline to search its channels."
_SHOWN = 3


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
        name, _, wanted = spec.partition("=")
        found = after.get(name)
        if found is None or not f"{found}.".startswith(f"{wanted.strip('=*.')}."):
            result = f"{name} would be {found}" if found else f"{name} would be missing"
            raise InstallFailed(
                f"{tool.label} reports that {spec} can be installed, but by its changes {result}",
                f"Check its answer: {command_text((tool.program, 'install', '--dry-run', spec))}",
            )


def execute_conda(prepared: PreparedCondaInstall, ctx: TransactionContext) -> InstallOutcome:
    """Executes a plan as one transaction.

    Raises:
        InstallError: when nothing was changed.
        KeyboardInterrupt: when interrupted, after restoring the former state.
    """
    conda_run, store, prefix = prepared.conda_run, ctx.store, prepared.scheme.prefix
    if stems(prefix) != set(prepared.packages):
        raise InstallError("the environment has changed since the plan was made", "Try again.")
    refuse_too_little(prefix, prepared.plan.space.download, prepared.plan.space.free)
    ctx.clock.begin("imports before")
    frameworks = working_frameworks(ctx.child, prepared.visible)
    number = store.begin()
    plan = numbered(prepared.plan, number)
    coming = [f"{pin.name} {pin.release}" for pin in plan.install]
    named = [text for text in coming if text.startswith(("cupy ", "cuda-version "))]
    shown = join_words([*named, *(text for text in coming if text not in named)], _SHOWN)
    journal = Journal(
        number=number,
        created_at=ctx.created_at,
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
        tool=conda_run.tool,
        revision=conda_run.tool.revision(read_history(prefix)),
        packages=tuple(FormerPackage(entry.stem, entry.name, entry.url) for entry in prepared.packages.values()),
        torn=tuple(sorted(torn_packages(prefix, prepared.packages.values()))),
        offline=conda_run.offline,
    )
    ctx.clock.begin("journal")
    try:
        write_state(store, number, state)
        store.write(journal)
    except OSError as error:
        store.drop(number)
        raise disk_failure("the journal cannot be written", error) from error

    def change(made: list[Verification]) -> None:
        ctx.clock.begin("download and unpack")
        ctx.progress(f"{conda_run.tool.label} is downloading and installing {len(plan.install)} packages")
        result = conda_run.run(prepared.command)
        if not succeeded(result):
            why = failure_reason(result)
            remedy = remedy_for(why)
            raise InstallFailed(f"{conda_run.tool.label} failed: {why}" + (f" {remedy}" if remedy else ""))
        ctx.clock.begin("proof")
        ctx.progress("verifying the install")
        steps: list[Callable[[], Verification]] = [
            lambda: _as_planned(prepared),
            lambda: _verify_files(prepared),
            lambda: verify_import(plan, ctx.child, prepared.scheme),
            *(partial(verify_framework, ctx.child, module) for module in frameworks),
            lambda: verify_doctor(ctx.doctor),
            *ctx.more,
        ]
        made += until_failure(map(timed, steps))
        if all(verification.passed is not False for verification in made):
            write_state(store, number, replace(state, after=tuple(sorted(stems(prefix)))))

    def put_back(made: tuple[Verification, ...], why: str, failed: Verification | None) -> InstallOutcome:
        del failed
        ctx.clock.begin("put back")
        ctx.progress("restoring the former packages")
        return failed_outcome(plan, journal, made, why, restore(store, journal, conda_run.environment))

    return commit_or_restore(ctx, plan, journal, change, put_back)


def _as_planned(prepared: PreparedCondaInstall) -> Verification:
    plan = prepared.plan
    now = {entry.name: entry.release for entry in read_packages(prepared.scheme.prefix).values()}
    expected = {entry.name: entry.release for entry in prepared.packages.values()}
    for gone in plan.remove:
        expected.pop(gone.name, None)
    expected.update({pin.name: pin.release for pin in plan.install})
    wrong = [
        f"{name}: {expected.get(name, 'none')} was planned, {now.get(name, 'none')} is installed"
        for name in sorted({*expected, *now})
        if expected.get(name) != now.get(name)
    ]
    return Verification(
        "as planned", not wrong, "; ".join(wrong[:_SHOWN]) or f"{len(plan.install)} packages as conda planned"
    )


def _verify_files(prepared: PreparedCondaInstall) -> Verification:
    coming = {pin.name for pin in prepared.plan.install}
    prefix = prepared.scheme.prefix
    packages = [entry for entry in read_packages(prefix).values() if entry.name in coming]
    wrong = [path for _, path in wrong_files(prefix, packages, contents=True)]
    right = "every file matches conda's records"
    return Verification(
        "files", not wrong, f"{len(wrong)} do not match conda's records, {wrong[0]} first" if wrong else right
    )
