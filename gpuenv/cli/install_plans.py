"""Makes executable plans from wheels or conda packages; the doctor and the smoke test verify their installs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from gpuenv.cli.clock import now
from gpuenv.cli.command_errors import CommandError, announce, progress
from gpuenv.cli.environment_change import ExecutablePlan, PlanFactory
from gpuenv.cli.gpu_verification import verify_gpu
from gpuenv.cli.installers import InstallerRequest, conda_run_for, installer_run_for
from gpuenv.cli.sources import MachineSource, get_snapshot
from gpuenv.doctor.checks import find_check
from gpuenv.doctor.diagnose import diagnose
from gpuenv.install.conda_transaction import PreparedCondaInstall, execute_conda, prepare_conda, refuse_pixi
from gpuenv.install.environment import Scheme, read_inventory
from gpuenv.install.installer_config import Installer
from gpuenv.install.journal import Store
from gpuenv.install.plan import Clock, InstallOutcome, Pin
from gpuenv.install.planner import PreparedInstall, prepare
from gpuenv.install.transaction import TransactionContext, execute
from gpuenv.install.verify import DoctorComparison, ImportSettings
from gpuenv.matrix.offers import Offer
from gpuenv.matrix.resolve import resolve
from gpuenv.matrix.tables import Matrix
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.finding import Severity
from gpuenv.model.resolution import Resolution
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.strings import Lines, lines_of
from gpuenv.probe.children import ChildGroup

P = TypeVar("P", PreparedInstall, PreparedCondaInstall)


class ExaminedMachine(NamedTuple):
    """The machine and target before the change, the matrix, and the resolution."""

    source: MachineSource  # probed again afterwards
    snapshot: Snapshot
    matrix: Matrix
    resolution: Resolution


def prepare_wheels(
    scheme: Scheme,
    request: InstallerRequest,
    offers: Sequence[Offer],
    pins: tuple[Pin, ...] | None = None,
    installer: Installer | None = None,
) -> PreparedInstall:
    """The plan to install the first of these offers that can be solved, or the pins of a lock.

    Raises:
        InstallError: when there can be no plan.
        CommandError: when it is a conda installer.
    """
    return prepare(read_inventory(scheme), installer_run_for(scheme, request, installer), offers, pins)


def by_wheels(prepare: Callable[[], PreparedInstall], examined: ExaminedMachine) -> PlanFactory:
    """Plans with wheels, by uv or pip; ``prepare`` makes the plan."""
    chosen = examined.resolution.wheel
    needs_toolkit = chosen is not None and chosen.needs_toolkit is not None
    return partial(_planned, prepare, execute, examined, external_libraries=needs_toolkit)


def by_conda(scheme: Scheme, examined: ExaminedMachine, request: InstallerRequest) -> PlanFactory:
    """Plans with conda packages."""
    prepare = partial(_prepare_conda, scheme, examined.resolution, request)
    return partial(_planned, prepare, execute_conda, examined, external_libraries=False)


def _prepare_conda(scheme: Scheme, resolution: Resolution, request: InstallerRequest) -> PreparedCondaInstall:
    """Plans the install of the resolver's conda specifications.

    Raises:
        InstallError: when there can be no plan.
        CommandError: when nothing fits.
    """
    choice = resolution.conda
    if choice is None:
        raise CommandError(
            ExitCode.NOTHING_FITS,
            Lines(("no conda package fits: nothing was changed", *lines_of(resolution.explanation))),
            "Wheels may: gpuenv install --installer uv (or pip), in an environment without conda's CUDA.",
        )
    refuse_pixi(scheme.prefix, choice)
    return prepare_conda(scheme, conda_run_for(scheme, request), choice)


def _planned(
    prepare: Callable[[], P],
    execute: Callable[[P, TransactionContext], InstallOutcome],
    examined: ExaminedMachine,
    *,
    external_libraries: bool,
) -> ExecutablePlan:
    """The plan and a function that executes it; the machine is diagnosed before and after."""

    def errors_now() -> Mapping[str, str]:
        snapshot = get_snapshot(examined.source, examined.matrix)
        return _errors(snapshot, examined.matrix, external_libraries=external_libraries)

    prepared = prepare()
    external_libraries = external_libraries or prepared.plan.needs_toolkit is not None
    executable = prepared.plan.target.executable

    def execute_plan(store: Store, clock: Clock) -> InstallOutcome:
        before = _errors(examined.snapshot, examined.matrix, external_libraries=external_libraries)
        work = TransactionContext(
            store=store,
            child=ImportSettings(executable, dict(os.environ), max(60.0, examined.source.timeout), ChildGroup()),
            doctor=DoctorComparison(before, errors_now),
            more=(partial(verify_gpu, executable, examined.source, examined.snapshot, examined.matrix),),
            announce=announce,
            progress=progress,
            created_at=now(),
            clock=clock,
        )
        return execute(prepared, work)

    return prepared.plan, execute_plan


def _errors(snapshot: Snapshot, matrix: Matrix, *, external_libraries: bool) -> Mapping[str, str]:
    """The doctor's errors about the target, by code.

    With ``external_libraries``, CUDA's libraries may be missing from it.
    """
    found = diagnose(snapshot, matrix, resolve(snapshot, matrix), time.monotonic).findings
    errors = {}
    for finding in found:
        check = find_check(finding.code)
        if finding.severity is not Severity.ERROR or check is None or not check.concerns_target:
            continue
        if not (check.concerns_libraries and external_libraries):
            errors[finding.code] = finding.title
    return errors
