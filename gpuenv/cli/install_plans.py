"""Executable plans of installs, from wheels or conda packages."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from gpuenv.cli.command_errors import announce, progress
from gpuenv.cli.environment_change import ExecutablePlan, PlanFactory
from gpuenv.cli.install_offers import chosen_conda_packages
from gpuenv.cli.install_verification import target_errors, verify_gpu
from gpuenv.cli.installers import InstallerRequest, conda_run_for, installer_run_for
from gpuenv.cli.sources import MachineSource, get_snapshot
from gpuenv.clock import now
from gpuenv.install.conda_planner import PreparedCondaInstall, prepare_conda, refuse_pixi
from gpuenv.install.conda_transaction import execute_conda
from gpuenv.install.environment import Scheme, read_inventory
from gpuenv.install.installer_config import Installer
from gpuenv.install.journal import Store
from gpuenv.install.plan import Clock, InstallOutcome, Pin
from gpuenv.install.planner import PreparedInstall, prepare
from gpuenv.install.transaction import TransactionContext, execute
from gpuenv.install.verify import DoctorComparison, ImportSettings
from gpuenv.matrix.offers import Offer
from gpuenv.matrix.tables import Matrix
from gpuenv.model.resolution import Resolution
from gpuenv.model.snapshot import Snapshot
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

    def prepare() -> PreparedCondaInstall:
        choice = chosen_conda_packages(examined.resolution)
        refuse_pixi(scheme.prefix, choice)  # also where no conda is found
        return prepare_conda(scheme, conda_run_for(scheme, request), choice)

    return partial(_planned, prepare, execute_conda, examined, external_libraries=False)


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
        return target_errors(snapshot, examined.matrix, external_libraries=external_libraries)

    prepared = prepare()
    external_libraries = external_libraries or prepared.plan.needs_toolkit is not None
    executable = prepared.plan.target.executable

    def execute_plan(store: Store, clock: Clock) -> InstallOutcome:
        before = target_errors(examined.snapshot, examined.matrix, external_libraries=external_libraries)
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
