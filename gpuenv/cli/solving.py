"""What the solver of an installer chooses for a target or another machine, without installing it."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from gpuenv.cli.command_errors import CommandError
from gpuenv.cli.install_offers import chosen_offers, chosen_requirements
from gpuenv.cli.install_output import announcing_phases, command_error
from gpuenv.cli.install_plans import prepare_wheels
from gpuenv.cli.install_target import scheme_of_target
from gpuenv.cli.installers import InstallerRequest, installer_run_for, takes_conda
from gpuenv.cli.sources import MachineSource, get_machine_and_matrix
from gpuenv.install.environment import Scheme, query_scheme, read_inventory
from gpuenv.install.exceptions import InstallError
from gpuenv.install.plan import Clock, Plan
from gpuenv.install.planner import lock_for
from gpuenv.install.solver import Lock
from gpuenv.install.target_platform import TargetPlatform, lock_for_platform, platform_of
from gpuenv.matrix.tables import Matrix
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.resolution import Resolution
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.strings import Lines, lines_of


class LockResult(NamedTuple):
    """A lock, and the environment it is for."""

    requirements: tuple[str, ...]  # of the release that was locked
    matrix_revision: str
    scheme: Scheme  # of the target, or of gpuenv's own Python for another machine
    lock: Lock
    platform: TargetPlatform | None = None  # of another machine; None if the target is on this one


def make_lock(
    source: MachineSource, matrix: Path | None, request: InstallerRequest, *, as_toml: bool = False
) -> LockResult:
    """Locks the requirements of a target, or of a recorded or assumed machine; ``as_toml``: as a ``pylock.toml``.

    Raises:
        InstallError: when there can be none.
        CommandError: when there is no target, or no wheel fits.
    """
    snapshot, rows = get_machine_and_matrix(source, matrix)
    if source.snapshot is not None or source.no_probe:
        return _lock_for_machine(snapshot, rows, request, source.timeout)
    scheme = scheme_of_target(source, snapshot)
    inventory = read_inventory(scheme)
    offers = chosen_offers(snapshot, rows)
    installer_run = installer_run_for(scheme, request)
    if as_toml and not installer_run.installer.locks_as_toml:  # fail before a minute of work
        remedy = "install uv (gpuenv lock --installer uv says why an installed one is rejected), or pass"
        raise CommandError(ExitCode.USAGE, "pip cannot write a pylock.toml", f"{remedy} --format requirements")
    with announcing_phases(Clock(part="plan")):
        lock = lock_for(inventory, installer_run, offers)
    return LockResult(chosen_requirements(lock.pins, offers), rows.revision, scheme, lock)


def _lock_for_machine(snapshot: Snapshot, rows: Matrix, request: InstallerRequest, seconds: float) -> LockResult:
    """Locks the requirements of another machine, with an installer of gpuenv's own Python."""
    scheme = query_scheme(sys.executable, os.environ, time.monotonic() + seconds)
    platform = platform_of(snapshot)
    offers = chosen_offers(snapshot, rows)
    installer_run = installer_run_for(scheme, request)  # fails without uv
    options = replace(installer_run.options, python_version=platform.python, platform=platform.uv_platform)
    with announcing_phases(Clock(part="plan")):
        lock = lock_for_platform(replace(installer_run, options=options), snapshot, offers)
    return LockResult(chosen_requirements(lock.pins, offers), rows.revision, scheme, lock, platform)


def confirm_wheel(
    resolution: Resolution, source: MachineSource, snapshot: Snapshot, matrix: Matrix, request: InstallerRequest
) -> tuple[Resolution, Plan]:
    """The resolution with the wheel that the installer's solver chooses, and the plan of its install.

    Raises:
        CommandError: when nothing can be solved, or conda manages the target.
    """
    try:
        scheme = scheme_of_target(source, snapshot)
        if takes_conda(scheme, request):
            raise CommandError(ExitCode.USAGE, "conda manages this target: see gpuenv install --dry-run")
        offers = chosen_offers(snapshot, matrix)
        plan = prepare_wheels(scheme, request, offers).plan
    except InstallError as error:
        raise command_error(error, source.named_target) from error
    choices = (choice for offer in offers for choice in offer.choices)
    wheel = next(choice for choice in choices if choice.requirements == plan.requirements)
    explanation = lines_of(resolution.explanation)
    if wheel != resolution.wheel:
        explanation.insert(1, f"The solver of {plan.installer} chooses {wheel.requirements[0].replace('==', ' ')}.")
    return resolution._replace(wheel=wheel, solved=True, explanation=Lines(explanation)), plan
