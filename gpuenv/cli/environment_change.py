"""Changes an environment: plan, consent, execution, verification, and rollback on failure.

``install`` and ``doctor --fix`` differ in what they install; ``transact`` does the rest for both, for wheels and for
conda packages.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import typer

from gpuenv.cli.clock import now
from gpuenv.cli.command_errors import CommandError, announce, is_quiet, progress
from gpuenv.cli.gpu_tests import planted_fault, run_tests, smoke_target
from gpuenv.cli.install_steps import (
    CONDAS,
    InstallerRequest,
    installer_run_for,
    recover_interrupted,
    refuse_interrupted,
)
from gpuenv.cli.options import InstallerName
from gpuenv.cli.output import Output, write_stderr
from gpuenv.cli.progress import announcing_phases
from gpuenv.cli.sources import MachineSource, get_snapshot, own_environment
from gpuenv.doctor.diagnose import diagnose
from gpuenv.doctor.registry import find_check
from gpuenv.install.backends.base import TimeBudget
from gpuenv.install.conda_environment import is_conda
from gpuenv.install.conda_transaction import CondaRun, PreparedCondaInstall, execute_conda, prepare_conda, refuse_pixi
from gpuenv.install.environment import Scheme, query_scheme, read_inventory
from gpuenv.install.exceptions import ConsentNeeded, TargetUnusable
from gpuenv.install.installer_config import Installer, select_conda
from gpuenv.install.journal import Store
from gpuenv.install.plan import Clock, InstallOutcome, Pin, Plan, Result, Verification
from gpuenv.install.plan_text import plan_lines
from gpuenv.install.planner import PreparedInstall, prepare, refuse_unusable
from gpuenv.install.transaction import TransactionContext, execute
from gpuenv.install.verify import DoctorComparison, ImportSettings
from gpuenv.matrix.offers import Offer
from gpuenv.matrix.resolve import resolve
from gpuenv.matrix.tables import Matrix
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.finding import Severity
from gpuenv.model.resolution import Resolution
from gpuenv.model.smoke import BROKEN, SmokeResult, TestResult, TestStatus
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.strings import Lines, join_words, lines_of
from gpuenv.probe.children import ChildGroup
from gpuenv.report.text_line import counted
from gpuenv.smoke.session import UnusableTarget
from gpuenv.smoke.tasks import SmokeOptions

ExecutablePlan = tuple[Plan, Callable[[Store, Clock], InstallOutcome]]
PlanFactory = Callable[[], ExecutablePlan]
P = TypeVar("P", PreparedInstall, PreparedCondaInstall)

_SMOKE_TEST = "smoke test"
_MAX_MESSAGES = 3  # of failed tests


class ExaminedMachine(NamedTuple):
    """The machine and target before the change, the matrix, and the resolution."""

    source: MachineSource  # probed again afterwards
    snapshot: Snapshot
    matrix: Matrix
    resolution: Resolution


class ConsentOptions(NamedTuple):
    """What the user consents to, and how the plan and the result are shown."""

    out: Output
    yes: bool  # no prompt
    dry_run: bool  # only show the plan
    allow_changes: bool = False  # packages other than CuPy's may change
    offline: bool = False  # no network, also when recovering interrupted installs


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


def show_plan(plan: Plan, out: Output) -> None:
    """Prints the plan as the result of a command."""
    out.emit(plan, lambda: plan_lines(plan, verbose=out.verbose))


def require_consent(plan: Plan, consent: ConsentOptions) -> None:
    """Asks for consent, unless ``--yes``.

    Raises:
        ConsentNeeded: when it is declined, or there is no terminal to prompt on.
    """
    out = consent.out
    if plan.moves and not consent.allow_changes:
        show_plan(plan, out)
        raise ConsentNeeded(
            f"packages other than CuPy's would change: {', '.join(plan.moves)}; nothing was changed",
            "Pass --allow-changes, or install into a separate environment.",
        )
    if not consent.yes:
        show_plan(plan, out._replace(file=None))
        if not (sys.stdin is not None and sys.stdin.isatty() and not out.as_json):
            raise ConsentNeeded(
                "not a terminal, so cannot prompt; nothing was changed", "Pass --yes to accept the plan."
            )
        if not typer.confirm("Proceed?", err=True):
            raise ConsentNeeded("declined; nothing was changed")
    elif not out.as_json and not is_quiet():
        write_stderr(plan_lines(plan, verbose=out.verbose))  # standard output is for the result


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
            more=(partial(_gpu_verification, examined, executable),),
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


def _gpu_verification(examined: ExaminedMachine, interpreter: str) -> Verification:
    """Runs the quick smoke test in the target; undetermined without a GPU."""
    snapshot = examined.snapshot
    if any(fact.startswith(("gpu", "driver")) for fact in snapshot.assumed):
        message = "the GPU or the driver is assumed; on the real machine, run: gpuenv smoke"
        return Verification(_SMOKE_TEST, None, message)
    if not snapshot.gpus:
        return Verification(_SMOKE_TEST, None, "there is no NVIDIA GPU here; on a machine with one, run: gpuenv smoke")
    matrix, source = examined.matrix, examined.source
    try:
        place = smoke_target(interpreter, source, get_snapshot(source, matrix), matrix, time.monotonic())
        return smoke_verification(run_tests(SmokeOptions(fault=planted_fault()), place, matrix))
    except UnusableTarget as error:
        return Verification(_SMOKE_TEST, False, str(error))


def smoke_verification(result: SmokeResult) -> Verification:
    """The verification by a smoke test; undetermined on a busy or unusable GPU."""
    passed = counted(sum(test.status is TestStatus.PASSED for test in result.tests), "test")
    gpus = ", ".join(gpu.name or "a GPU" for gpu in result.gpus)
    failed = [test for test in result.tests if test.status in BROKEN]
    if failed:
        fault = f" ({result.fault} was planted on purpose)" if result.fault else ""
        return Verification(
            _SMOKE_TEST, False, f"{counted(len(failed), 'test')} failed on {gpus}{fault}: {_messages(failed)}"
        )
    if result.status is TestStatus.PASSED:
        return Verification(_SMOKE_TEST, True, f"{passed} passed on {gpus}")
    busy = [test for test in result.tests if test.status is TestStatus.BUSY]
    if busy:
        return Verification(_SMOKE_TEST, None, f"{passed} passed; other programs use the GPU: {_messages(busy)}")
    reason = next((test.detail for test in result.tests if test.detail), result.status.value)
    return Verification(_SMOKE_TEST, None, f"no test gave a verdict: {reason}")


def _messages(tests: Sequence[TestResult]) -> str:
    """The messages of the tests, each once with its tests."""
    names_by_message: dict[str, list[str]] = {}
    for test in tests:
        names_by_message.setdefault(test.detail or test.status.value, []).append(test.name)
    messages = [
        f"{join_words(list(dict.fromkeys(names)), _MAX_MESSAGES)}: {text}" for text, names in names_by_message.items()
    ]
    left = len(messages) - _MAX_MESSAGES
    return "; ".join(messages[:_MAX_MESSAGES]) + (f"; and {left} other messages" if left > 0 else "")
