"""Changes an environment: plan, consent, execution, verification, and rollback on failure.

``install`` and ``doctor --fix`` differ in what they install; ``transact`` does the rest for both, for wheels and for
conda packages.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from gpuenv.cli.clock import now
from gpuenv.cli.command_errors import CommandError, announce, progress
from gpuenv.cli.consent import ConsentOptions, require_consent, show_plan
from gpuenv.cli.install_steps import (
    CONDAS,
    InstallerRequest,
    installer_run_for,
    recover_interrupted,
    refuse_interrupted,
)
from gpuenv.cli.install_verification import ExaminedMachine, target_errors, verify_on_gpu
from gpuenv.cli.options import InstallerName
from gpuenv.cli.progress import announcing_phases
from gpuenv.cli.sources import MachineSource, get_snapshot, own_environment
from gpuenv.install.backends.base import TimeBudget
from gpuenv.install.conda_environment import is_conda
from gpuenv.install.conda_transaction import CondaRun, PreparedCondaInstall, execute_conda, prepare_conda, refuse_pixi
from gpuenv.install.environment import Scheme, query_scheme, read_inventory
from gpuenv.install.exceptions import TargetUnusable
from gpuenv.install.installer_config import Installer, select_conda
from gpuenv.install.journal import Store
from gpuenv.install.plan import Clock, InstallOutcome, Pin, Plan, Result
from gpuenv.install.planner import PreparedInstall, prepare, refuse_unusable
from gpuenv.install.transaction import TransactionContext, execute
from gpuenv.install.verify import DoctorComparison, ImportSettings
from gpuenv.matrix.offers import Offer
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.resolution import Resolution
from gpuenv.model.strings import Lines, lines_of
from gpuenv.probe.children import ChildGroup

ExecutablePlan = tuple[Plan, Callable[[Store, Clock], InstallOutcome]]
PlanFactory = Callable[[], ExecutablePlan]
P = TypeVar("P", PreparedInstall, PreparedCondaInstall)


def transact(
    interpreter: str, scheme: Scheme, plan_factory: PlanFactory, consent: ConsentOptions, clock: Clock
) -> InstallOutcome | None:
    """Plans, asks for consent and executes the plan under the environment's lock; only shows it for a dry run.

    ``plan_factory`` returns the plan and a function that executes it; it is called under the lock.

    Raises:
        InstallError: when nothing was changed: no plan, no consent, or the new files could not be prepared.
    """
    store = Store(Path(scheme.root))
    if consent.dry_run:
        refuse_interrupted(interpreter, store)
        show_plan(dry_run_plan(plan_factory, clock), consent.out)
        return None
    with store.locked(), announcing_phases(clock):
        recovered = recover_interrupted(interpreter, store, locked=True, offline=consent.offline)
        clock.begin("plan")
        plan, execute_plan = plan_factory()
        if plan.empty:
            message = f"{' '.join(plan.requirements)} is already installed"
            outcome = InstallOutcome(Result.UNCHANGED, ExitCode.OK, message, None, plan.target, plan)
        else:
            clock.begin("consent")
            require_consent(plan, consent)
            outcome = execute_plan(store, clock)
    return replace(outcome, recovered=recovered, phases=clock.phases())


def dry_run_plan(plan_factory: PlanFactory, clock: Clock) -> Plan:
    """The plan alone, for a dry run."""
    clock.begin("plan")
    with announcing_phases(clock):
        return plan_factory()[0]


def target_scheme(
    interpreter: str, source: MachineSource, request: InstallerRequest, group: ChildGroup | None = None
) -> Scheme:
    """The folders of a target.

    Raises:
        InstallError: when nothing may be installed into it.
    """
    scheme = query_scheme(interpreter, os.environ, time.monotonic() + source.timeout, group)
    refuse_unusable(scheme, break_system_packages=request.break_system_packages)
    return scheme


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
            more=(partial(verify_on_gpu, examined, executable),),
            announce=announce,
            progress=progress,
            created_at=now(),
            clock=clock,
        )
        return execute(prepared, work)

    return prepared.plan, execute_plan


def takes_conda(scheme: Scheme, request: InstallerRequest) -> bool:
    """Whether to install conda packages: in conda environments, unless uv or pip is named.

    Raises:
        TargetUnusable: when a conda installer is named for another kind of environment.
    """
    if is_conda(scheme.prefix):
        return request.installer not in (InstallerName.UV, InstallerName.PIP)
    if request.installer in CONDAS:
        raise TargetUnusable(
            f"{scheme.prefix} is not a conda environment", "Leave --installer out, or name another target."
        )
    return False


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
    variables = own_environment()
    tool = select_conda(request.installer.value, scheme.prefix, variables, time.monotonic() + request.seconds)
    installer_run = CondaRun(tool, variables, TimeBudget(request.seconds), ChildGroup(), request.offline)
    return prepare_conda(scheme, installer_run, choice)
