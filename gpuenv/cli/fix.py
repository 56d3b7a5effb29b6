"""``gpuenv doctor --fix``: repairs what lies inside the target, by the installer's transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from gpuenv.cli.errors import announce, complain, folded
from gpuenv.cli.inputs import MachineSource, get_matrix
from gpuenv.cli.installer import Means, caller_for, command_error, interpreter_of, put_back_first, resolved_for, stood
from gpuenv.cli.options import INSTALL_TIMEOUT, InstallerName
from gpuenv.cli.output import Output
from gpuenv.cli.transaction import (
    Examined,
    Planned,
    Terms,
    Way,
    by_conda,
    by_wheels,
    show_plan,
    target_scheme,
    transact,
)
from gpuenv.doctor.installed import is_condas
from gpuenv.doctor.repair import RepairPlan, as_it_is, choices, loses_libraries, repair_plan, satisfies, with_any_numpy
from gpuenv.install.environment import read_record, take_stock
from gpuenv.install.errors import ConsentNeeded, InstallError, NothingFits, TargetUnusable
from gpuenv.install.plan import Clock, Outcome, Plan, Result
from gpuenv.install.planner import Prepared, prepare
from gpuenv.install.text import plan_lines
from gpuenv.matrix.resolve import resolve
from gpuenv.model.finding import Repair, RepairStatus, Severity

if TYPE_CHECKING:
    from gpuenv.cli.commands.doctor import DoctorOptions
    from gpuenv.cli.output import Wanted
    from gpuenv.install.environment import Scheme
    from gpuenv.model.resolution import WheelChoice
    from gpuenv.report.report import Report


def fix(
    found: Report, examine: Callable[[], Report], opts: DoctorOptions, subject: MachineSource, forms: Sequence[Wanted]
) -> Report:
    """Repairs what it may; returns the report afterwards (made by ``examine``), which says what is left.

    A plan that is only to be shown is in the report, unless the forms of output are text alone.

    Raises:
        CommandError: when consent is missing, or there is no target.
        Exit: after a plan that was only to be shown, as text; the code is that of what was found.
    """
    wound = repair_plan(found.findings, found.snapshot)
    if wound is None:
        return _nothing(found, "nothing here is for gpuenv to mend")
    for title in dict.fromkeys(f"{f.code}: {f.title}" for f in found.findings if f.code in wound.codes):
        announce(f"to be mended: {title}")
    as_json = any(entry.form == "json" and entry.path is None for entry in forms)
    out = Output(None, as_json, not opts.no_color, opts.redact, opts.verbose)
    try:
        outcome = _transaction(found, opts, subject, wound, out)
    except NothingFits as error:
        return _nothing(found, f"what would mend it cannot be had: {error.message}")
    except ConsentNeeded as error:
        raise command_error(error) from error
    except InstallError as error:
        # What was found stays found; that it could not be repaired has an exit code of its own.
        ended = stood(error, python=subject.named)
        announce(ended.message)
        if ended.remedy:
            complain(folded(ended.remedy))
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
    status = statuses.get(outcome.status, RepairStatus.REPAIRED)
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
    exit_code = after.exit_code if status is RepairStatus.REPAIRED else int(outcome.exit_code)
    return after._replace(repair=repair, exit_code=exit_code)


def _nothing(found: Report, message: str) -> Report:
    announce(message)
    return found._replace(repair=Repair(RepairStatus.NOTHING, _sentence(message), left=_codes(found)))


def _sentence(message: str) -> str:
    return f"{message[0].upper()}{message[1:].rstrip('.')}."


def _codes(report: Report) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f.code for f in report.findings if f.severity is not Severity.NOTE))


def _transaction(
    found: Report, opts: DoctorOptions, subject: MachineSource, wound: RepairPlan, out: Output
) -> Outcome | Plan | None:
    """Plans, asks, and carries it out; the plan alone for a dry run, None where no CuPy fits."""
    means = Means(InstallerName.AUTO, opts.offline, break_system_packages=False, seconds=INSTALL_TIMEOUT)
    interpreter = interpreter_of(subject)
    put_back_first(interpreter, None, dry_run=opts.dry_run, offline=opts.offline)
    scheme = target_scheme(interpreter, subject, means)
    rows = get_matrix(opts.matrix)
    way = _way(scheme, Examined(subject, found.snapshot, rows, found.resolution), means, wound)
    if way is None:
        return None
    if opts.dry_run:
        return way()[0]
    return transact(interpreter, scheme, way, Terms(out, opts.yes, dry_run=False, offline=opts.offline), Clock())


def _way(scheme: Scheme, examined: Examined, means: Means, wound: RepairPlan) -> Way | None:
    """By conda where CuPy is conda's business, else by wheels; None where neither would repair it.

    Raises:
        TargetUnusable: where the environment is pixi's to change.
    """
    facts = examined.facts
    if facts.target.made_by.value == "pixi":
        raise TargetUnusable(
            f"{scheme.prefix} belongs to a pixi project: pixi makes it what its manifest says, and takes out all else",
            "Let pixi do it: gpuenv doctor tells the commands.",
        )
    if is_condas(facts.target):
        resolution = examined.resolution
        # Conda chooses and replaces whole packages; to put the same ones in anew is for a person: the fix says how.
        if wound.choice and resolution.conda is None:  # with the installed NumPy: else with one that conda moves
            resolution = resolve(with_any_numpy(facts), examined.rows)
        if not wound.choice or resolution.conda is None:
            return None
        return _numpy_may_move(by_conda(scheme, examined._replace(resolution=resolution), means))
    wheel = _chosen(examined, scheme, wound) if wound.choice else None
    if wound.choice and wheel is None:
        return None
    requirements = (*(wheel.requirements if wheel else as_it_is(facts)), *wound.more)
    return _numpy_may_move(by_wheels(lambda: _prepare(scheme, requirements, means, wound), examined))


def _numpy_may_move(way: Way) -> Way:
    """That NumPy moves is a fix that the doctor names: consent to the plan is consent to it."""

    def planned() -> Planned:
        plan, carry_out = way()
        return replace(plan, moves=tuple(name for name in plan.moves if name != "numpy")), carry_out

    return planned


def _chosen(examined: Examined, scheme: Scheme, wound: RepairPlan) -> WheelChoice | None:
    """The wheel that repairs it: with the installed NumPy, else with one that comes with it; None where none does.

    NumPy is not asked for: CuPy's own metadata moves it, so far as what else is there lets it.
    """
    facts = examined.facts
    # A toolkit of the host that CuPy has not found so far is none to count on.
    counted = facts._replace(toolkits=()) if wound.with_libraries else facts
    holdings = take_stock(scheme)
    tried: list[WheelChoice] = []
    for given in (counted, with_any_numpy(counted)):
        for narrowed in choices(facts, examined.rows, examined.resolution):
            wheel = resolved_for(given, narrowed, holdings).wheel
            if wheel is not None and satisfies(wheel, wound, facts):
                return wheel
            tried += [wheel] if wheel is not None and given is counted else []
        # The resolver's free choice came last; what it lacks is for a person.
        if tried and not wound.with_libraries and not loses_libraries(tried[-1], wound, facts):
            return tried[-1]
    return None


def _prepare(scheme: Scheme, requirements: Sequence[str], means: Means, wound: RepairPlan) -> Prepared:
    holdings = take_stock(scheme)
    caller = caller_for(scheme, means)
    if wound.afresh and not means.offline:
        announce(
            f"uv's cache may share the damage and is not used; to mend it too: uv cache clean {' '.join(wound.again)}"
        )
        caller = replace(caller, environment={**caller.environment, "UV_NO_CACHE": "1"})
    # With the distributions that own a file of these names.
    owners = {
        entry.name
        for entry in (holdings.own.values() if wound.sonames else ())
        for file in read_record(entry.metadata) or ()
        if file.path.rsplit("/", 1)[-1].startswith(tuple(wound.sonames))
    }
    return prepare(holdings, caller, requirements, again=(*wound.again, *sorted(owners)), cleared=wound.cleared)
