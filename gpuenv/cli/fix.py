"""``gpuenv doctor --fix``: repairs packages of the target in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from gpuenv.cli.command_errors import announce, complain
from gpuenv.cli.environment_change import (
    ConsentOptions,
    ExecutablePlan,
    PlanFactory,
    dry_run_plan,
    show_plan,
    transact,
)
from gpuenv.cli.install_output import command_error, with_environment_state
from gpuenv.cli.install_plans import ExaminedMachine, by_conda, by_wheels
from gpuenv.cli.install_target import changeable_scheme, find_store, recover_interrupted, require_interpreter
from gpuenv.cli.installers import InstallerRequest, installer_run_for
from gpuenv.cli.options import INSTALL_TIMEOUT, InstallerName
from gpuenv.cli.output import Output
from gpuenv.cli.sources import MachineSource, get_matrix
from gpuenv.doctor.installed_cupy import is_managed_by_conda
from gpuenv.doctor.repair import (
    RepairPlan,
    conda_repair,
    installed_requirement,
    repair_offers,
    repair_plan,
)
from gpuenv.install.environment import read_inventory, read_record
from gpuenv.install.exceptions import ConsentNeeded, InstallError, NothingFits, TargetUnusable
from gpuenv.install.plan import Clock, InstallOutcome, Plan, Result
from gpuenv.install.plan_text import plan_lines
from gpuenv.install.planner import PreparedInstall, prepare
from gpuenv.install.transaction import outcome_on_interrupt
from gpuenv.matrix.offers import Offer
from gpuenv.model.finding import Repair, RepairStatus, Severity

if TYPE_CHECKING:
    from gpuenv.cli.commands.doctor import DoctorOptions
    from gpuenv.cli.output import OutputSpec
    from gpuenv.install.environment import Scheme
    from gpuenv.report.report import Report


def fix(
    before: Report,
    examine: Callable[[], Report],
    opts: DoctorOptions,
    source: MachineSource,
    specs: Sequence[OutputSpec],
) -> Report:
    """Repairs the target; returns the report afterwards (made by ``examine``), which contains what is left.

    With ``--dry-run`` the report contains the plan, unless text is the only output format.

    Raises:
        CommandError: when consent is missing, or there is no target.
        Exit: after the plan of a dry run as text, with the exit code of the findings.
    """
    if before.snapshot.target.open_transaction.value is not None:
        return _finish_rollback(before, examine, opts, source)
    return _repair(before, examine, opts, source, specs)


def _repair(
    before: Report,
    examine: Callable[[], Report],
    opts: DoctorOptions,
    source: MachineSource,
    specs: Sequence[OutputSpec],
) -> Report:
    repairs = repair_plan(before.findings, before.snapshot)
    if repairs is None:
        return _nothing(before, "nothing here that gpuenv can fix")
    for title in dict.fromkeys(f"{f.code}: {f.title}" for f in before.findings if f.code in repairs.codes):
        announce(f"will fix: {title}")
    as_json = any(entry.form == "json" and entry.path is None for entry in specs)
    out = Output(None, as_json, not opts.no_color, opts.redact, opts.verbose)
    try:
        outcome = _transaction(before, opts, source, repairs, out)
    except NothingFits as error:
        return _nothing(before, f"the fix cannot be installed: {error.message}")
    except ConsentNeeded as error:
        raise command_error(error) from error
    except InstallError as error:
        return _failed(before, error, source)
    if isinstance(outcome, Plan):
        if all(entry.form == "text" and entry.path is None for entry in specs):
            show_plan(outcome, out)
            raise typer.Exit(before.exit_code)
        lines = tuple(line.text for line in plan_lines(outcome, verbose=opts.verbose))
        repair = Repair(RepairStatus.PLANNED, "Nothing was changed.", left=_codes(before), plan=lines)
        return before._replace(repair=repair)
    if outcome is None or outcome.status is Result.UNCHANGED:
        return _nothing(before, "no package that gpuenv could install fixes this; each finding has its own fix")
    with outcome_on_interrupt(outcome, announce):
        after = examine()
    statuses = {Result.RESTORED: RepairStatus.RESTORED, Result.NOT_RESTORED: RepairStatus.NOT_RESTORED}
    status = statuses.get(outcome.status, RepairStatus.REPAIRED)
    repair = Repair(
        status=status,
        message=_sentence(outcome.message),
        gone=_gone(before, after),
        left=_codes(after),
        transaction=outcome.transaction,
        undo=outcome.undo.argv if outcome.undo else None,
    )
    exit_code = after.exit_code if status is RepairStatus.REPAIRED else int(outcome.exit_code)
    return after._replace(repair=repair, exit_code=exit_code)


def _finish_rollback(
    before: Report, examine: Callable[[], Report], opts: DoctorOptions, source: MachineSource
) -> Report:
    """Undoes an interrupted install or rollback and nothing else: what remains is only visible afterwards."""
    if opts.dry_run:
        plan = ("The interrupted install would be rolled back; the other checks of the environment come afterwards.",)
        return before._replace(
            repair=Repair(RepairStatus.PLANNED, "Nothing was changed.", left=_codes(before), plan=plan)
        )
    try:
        store = find_store(require_interpreter(source), source.timeout)
        numbers = recover_interrupted(store, offline=opts.offline)
    except InstallError as error:
        return _failed(before, error, source)
    after = examine()
    message = f"Rolled back: the interrupted install {', '.join(numbers)}." if numbers else "It was undone meanwhile."
    return after._replace(repair=Repair(RepairStatus.REPAIRED, message, gone=_gone(before, after), left=_codes(after)))


def _failed(before: Report, error: InstallError, source: MachineSource) -> Report:
    """The report of a failed repair, which has its own exit code; the findings remain."""
    failure = with_environment_state(error, (), source.named_target)
    announce(failure.message)
    if failure.remedy:
        complain(failure.remedy, wrap=True)
    status = RepairStatus.FAILED if error.untouched else RepairStatus.NOT_RESTORED
    repair = Repair(status, _sentence(failure.message), left=_codes(before))
    return before._replace(repair=repair, exit_code=failure.exit_code)


def _nothing(before: Report, message: str) -> Report:
    announce(message)
    return before._replace(repair=Repair(RepairStatus.NOTHING, _sentence(message), left=_codes(before)))


def _sentence(message: str) -> str:
    return f"{message[0].upper()}{message[1:].rstrip('.')}."


def _codes(report: Report) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f.code for f in report.findings if f.severity is not Severity.NOTE))


def _gone(before: Report, after: Report) -> tuple[str, ...]:
    left = _codes(after)
    return tuple(code for code in _codes(before) if code not in left)


def _transaction(
    before: Report, opts: DoctorOptions, source: MachineSource, repairs: RepairPlan, out: Output
) -> InstallOutcome | Plan | None:
    """Plans, asks for consent, and executes the plan; only the plan for a dry run, None if no CuPy fits."""
    request = InstallerRequest(InstallerName.AUTO, opts.offline, INSTALL_TIMEOUT)
    scheme = changeable_scheme(require_interpreter(source), source, request)
    matrix = get_matrix(opts.matrix)
    plan_factory = _plan_factory(
        scheme, ExaminedMachine(source, before.snapshot, matrix, before.resolution), request, repairs
    )
    if plan_factory is None:
        return None
    if opts.dry_run:
        return dry_run_plan(plan_factory, Clock())
    return transact(scheme, plan_factory, ConsentOptions(out, opts.yes, offline=opts.offline), Clock())


def _plan_factory(
    scheme: Scheme, examined: ExaminedMachine, request: InstallerRequest, repairs: RepairPlan
) -> PlanFactory | None:
    """Plans with conda if it manages CuPy, else with wheels; None if neither repairs the target.

    Raises:
        TargetUnusable: when pixi manages the environment.
    """
    snapshot = examined.snapshot
    if snapshot.target.made_by.value == "pixi":
        raise TargetUnusable(
            f"{scheme.prefix} belongs to a pixi project: pixi removes everything that its manifest does not list",
            "Use pixi: gpuenv doctor shows the commands.",
        )
    if is_managed_by_conda(snapshot.target):
        # Conda replaces whole packages; it cannot reinstall the same ones here: the fix has the command.
        resolution = conda_repair(snapshot, examined.matrix, examined.resolution) if repairs.may_replace else None
        if resolution is None:
            return None
        return _numpy_may_move(by_conda(scheme, examined._replace(resolution=resolution), request))
    offers = (
        repair_offers(snapshot, examined.matrix, examined.resolution, repairs)
        if repairs.may_replace
        else (Offer(installed_requirement(snapshot)),)
    )
    if not offers:
        return None
    offers = tuple(offer._replace(requirements=(*offer.requirements, *repairs.additions)) for offer in offers)
    return _numpy_may_move(by_wheels(lambda: _prepare(scheme, offers, request, repairs), examined))


def _numpy_may_move(plan_factory: PlanFactory) -> PlanFactory:
    """Removes NumPy from the changes that need ``--allow-changes``: the doctor's fix is to change it."""

    def planned() -> ExecutablePlan:
        plan, execute_plan = plan_factory()
        return replace(plan, moves=tuple(name for name in plan.moves if name != "numpy")), execute_plan

    return planned


def _prepare(
    scheme: Scheme, offers: Sequence[Offer], request: InstallerRequest, repairs: RepairPlan
) -> PreparedInstall:
    inventory = read_inventory(scheme)
    installer_run = installer_run_for(scheme, request)
    if repairs.bypasses_cache and not request.offline:
        announce(
            "uv's cache may hold the same damaged files and is not used; "
            f"to clean it: uv cache clean {' '.join(repairs.reinstalled)}"
        )
        installer_run = replace(installer_run, environment={**installer_run.environment, "UV_NO_CACHE": "1"})
    # Also reinstall the distributions that own a file with one of these names.
    owners = {
        entry.name
        for entry in (inventory.own.values() if repairs.sonames else ())
        for file in read_record(entry.metadata) or ()
        if file.path.rsplit("/", 1)[-1].startswith(tuple(repairs.sonames))
    }
    return prepare(
        inventory, installer_run, offers, again=(*repairs.reinstalled, *sorted(owners)), cleared=repairs.cleared
    )
