"""``gpuenv doctor --fix``: repairs what lies inside the target, by the installer's transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from gpuenv.cli.command_errors import announce, complain, wrapped
from gpuenv.cli.environment_change import (
    ConsentOptions,
    ExaminedMachine,
    ExecutablePlan,
    PlanFactory,
    by_conda,
    by_wheels,
    show_plan,
    target_scheme,
    transact,
)
from gpuenv.cli.install_steps import (
    InstallerRequest,
    command_error,
    installer_run_for,
    interpreter_of,
    recover_interrupted,
    resolved_for,
    with_environment_state,
)
from gpuenv.cli.options import INSTALL_TIMEOUT, InstallerName
from gpuenv.cli.output import Output
from gpuenv.cli.sources import MachineSource, get_matrix
from gpuenv.doctor.installed import is_condas
from gpuenv.doctor.repair import RepairPlan, as_it_is, choices, loses_libraries, repair_plan, satisfies, with_any_numpy
from gpuenv.install.environment import read_inventory, read_record
from gpuenv.install.exceptions import ConsentNeeded, InstallError, NothingFits, TargetUnusable
from gpuenv.install.plan import Clock, InstallOutcome, Plan, Result
from gpuenv.install.plan_text import plan_lines
from gpuenv.install.planner import PreparedInstall, prepare
from gpuenv.matrix.resolve import resolve
from gpuenv.model.finding import Repair, RepairStatus, Severity

if TYPE_CHECKING:
    from gpuenv.cli.commands.doctor import DoctorOptions
    from gpuenv.cli.output import OutputSpec
    from gpuenv.install.environment import Scheme
    from gpuenv.model.resolution import WheelChoice
    from gpuenv.report.report import Report


def fix(
    found: Report,
    examine: Callable[[], Report],
    opts: DoctorOptions,
    source: MachineSource,
    forms: Sequence[OutputSpec],
) -> Report:
    """Repairs what it may; returns the report afterwards (made by ``examine``), which says what is left.

    A plan that is only to be shown is in the report, unless the forms of output are text alone.

    Raises:
        CommandError: when consent is missing, or there is no target.
        Exit: after a plan that was only to be shown, as text; the code is that of what was found.
    """
    repairs = repair_plan(found.findings, found.snapshot)
    if repairs is None:
        return _nothing(found, "nothing here is for gpuenv to mend")
    for title in dict.fromkeys(f"{f.code}: {f.title}" for f in found.findings if f.code in repairs.codes):
        announce(f"to be mended: {title}")
    as_json = any(entry.form == "json" and entry.path is None for entry in forms)
    out = Output(None, as_json, not opts.no_color, opts.redact, opts.verbose)
    try:
        outcome = _transaction(found, opts, source, repairs, out)
    except NothingFits as error:
        return _nothing(found, f"what would mend it cannot be had: {error.message}")
    except ConsentNeeded as error:
        raise command_error(error) from error
    except InstallError as error:
        # What was found stays found; that it could not be repaired has an exit code of its own.
        ended = with_environment_state(error, python=source.named)
        announce(ended.message)
        if ended.remedy:
            complain(wrapped(ended.remedy))
        status = RepairStatus.FAILED if error.untouched else RepairStatus.NOT_RESTORED
        repair = Repair(status, _sentence(ended.message), left=_codes(found))
        return found._replace(repair=repair, exit_code=ended.exit_code)
    if isinstance(outcome, Plan):
        if all(entry.form == "text" and entry.path is None for entry in forms):
            show_plan(outcome, out)
            raise typer.Exit(found.exit_code)
        lines = tuple(line.text for line in plan_lines(outcome, verbose=opts.verbose))
        repair = Repair(RepairStatus.PLANNED, "Nothing was changed.", left=_codes(found), plan=lines)
        return found._replace(repair=repair)
    if outcome is None or outcome.status is Result.UNCHANGED:
        return _nothing(
            found, "nothing that gpuenv could install would mend it; what else to do stands with each finding"
        )
    after = examine()
    statuses = {Result.RESTORED: RepairStatus.RESTORED, Result.NOT_RESTORED: RepairStatus.NOT_RESTORED}
    status = statuses.get(outcome.status, RepairStatus.MENDED)
    left = _codes(after)
    repair = Repair(
        status=status,
        message=_sentence(outcome.message),
        gone=tuple(code for code in _codes(found) if code not in left),
        left=left,
        transaction=outcome.transaction,
        undo=outcome.undo.argv if outcome.undo else None,
    )
    # A failed repair has its own exit code.
    exit_code = after.exit_code if status is RepairStatus.MENDED else int(outcome.exit_code)
    return after._replace(repair=repair, exit_code=exit_code)


def _nothing(found: Report, message: str) -> Report:
    announce(message)
    return found._replace(repair=Repair(RepairStatus.NOTHING, _sentence(message), left=_codes(found)))


def _sentence(message: str) -> str:
    return f"{message[0].upper()}{message[1:].rstrip('.')}."


def _codes(report: Report) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f.code for f in report.findings if f.severity is not Severity.NOTE))


def _transaction(
    found: Report, opts: DoctorOptions, source: MachineSource, repairs: RepairPlan, out: Output
) -> InstallOutcome | Plan | None:
    """Plans, asks, and carries it out; the plan alone for a dry run, None where no CuPy fits."""
    request = InstallerRequest(InstallerName.AUTO, opts.offline, break_system_packages=False, seconds=INSTALL_TIMEOUT)
    interpreter = interpreter_of(source)
    recover_interrupted(interpreter, None, dry_run=opts.dry_run, offline=opts.offline)
    scheme = target_scheme(interpreter, source, request)
    matrix = get_matrix(opts.matrix)
    plan_factory = _plan_factory(
        scheme, ExaminedMachine(source, found.snapshot, matrix, found.resolution), request, repairs
    )
    if plan_factory is None:
        return None
    if opts.dry_run:
        return plan_factory()[0]
    return transact(
        interpreter, scheme, plan_factory, ConsentOptions(out, opts.yes, dry_run=False, offline=opts.offline), Clock()
    )


def _plan_factory(
    scheme: Scheme, examined: ExaminedMachine, request: InstallerRequest, repairs: RepairPlan
) -> PlanFactory | None:
    """By conda where CuPy is conda's business, else by wheels; None where neither would repair it.

    Raises:
        TargetUnusable: where the environment is pixi's to change.
    """
    snapshot = examined.snapshot
    if snapshot.target.made_by.value == "pixi":
        raise TargetUnusable(
            f"{scheme.prefix} belongs to a pixi project: pixi makes it what its manifest says, and takes out all else",
            "Let pixi do it: gpuenv doctor tells the commands.",
        )
    if is_condas(snapshot.target):
        resolution = examined.resolution
        # Conda chooses and replaces whole packages; to put the same ones in anew is for a person: the fix says how.
        if repairs.choice and resolution.conda is None:  # with the installed NumPy: else with one that conda moves
            resolution = resolve(with_any_numpy(snapshot), examined.matrix)
        if not repairs.choice or resolution.conda is None:
            return None
        return _numpy_may_move(by_conda(scheme, examined._replace(resolution=resolution), request))
    wheel = _chosen(examined, scheme, repairs) if repairs.choice else None
    if repairs.choice and wheel is None:
        return None
    requirements = (*(wheel.requirements if wheel else as_it_is(snapshot)), *repairs.more)
    return _numpy_may_move(by_wheels(lambda: _prepare(scheme, requirements, request, repairs), examined))


def _numpy_may_move(plan_factory: PlanFactory) -> PlanFactory:
    """That NumPy moves is a fix that the doctor names: consent to the plan is consent to it."""

    def planned() -> ExecutablePlan:
        plan, carry_out = plan_factory()
        return replace(plan, moves=tuple(name for name in plan.moves if name != "numpy")), carry_out

    return planned


def _chosen(examined: ExaminedMachine, scheme: Scheme, repairs: RepairPlan) -> WheelChoice | None:
    """The wheel that repairs it: with the installed NumPy, else with one that comes with it; None where none does.

    NumPy is not asked for: CuPy's own metadata moves it, so far as what else is there lets it.
    """
    snapshot = examined.snapshot
    # A toolkit of the host that CuPy has not found so far is none to count on.
    counted = snapshot._replace(toolkits=()) if repairs.with_libraries else snapshot
    inventory = read_inventory(scheme)
    tried: list[WheelChoice] = []
    for given in (counted, with_any_numpy(counted)):
        for narrowed in choices(snapshot, examined.matrix, examined.resolution):
            wheel = resolved_for(given, narrowed, inventory).wheel
            if wheel is not None and satisfies(wheel, repairs, snapshot):
                return wheel
            tried += [wheel] if wheel is not None and given is counted else []
        # The resolver's free choice came last; what it lacks is for a person.
        if tried and not repairs.with_libraries and not loses_libraries(tried[-1], repairs, snapshot):
            return tried[-1]
    return None


def _prepare(
    scheme: Scheme, requirements: Sequence[str], request: InstallerRequest, repairs: RepairPlan
) -> PreparedInstall:
    inventory = read_inventory(scheme)
    installer_run = installer_run_for(scheme, request)
    if repairs.afresh and not request.offline:
        announce(
            f"uv's cache may share the damage and is not used; to mend it too: uv cache clean {' '.join(repairs.again)}"
        )
        installer_run = replace(installer_run, environment={**installer_run.environment, "UV_NO_CACHE": "1"})
    # With the distributions that own a file of these names.
    owners = {
        entry.name
        for entry in (inventory.own.values() if repairs.sonames else ())
        for file in read_record(entry.metadata) or ()
        if file.path.rsplit("/", 1)[-1].startswith(tuple(repairs.sonames))
    }
    return prepare(
        inventory, installer_run, requirements, again=(*repairs.again, *sorted(owners)), cleared=repairs.cleared
    )
