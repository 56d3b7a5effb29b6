"""``gpuenv doctor --fix``: what may be mended inside the target, by the installer's transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gpuenv.cli.announce import announce, folded
from gpuenv.cli.changing.choices import (
    INSTALL_TIMEOUT,
    InstallerName,
    Means,
    caller_for,
    command_error,
    interpreter_of,
    put_back_first,
    resolved_for,
)
from gpuenv.cli.errors import CommandError, complain
from gpuenv.cli.inputs import Subject, get_matrix
from gpuenv.model.repair import Repair, RepairStatus

if TYPE_CHECKING:
    from gpuenv.cli.changing.transaction import Examined, Planned, Way
    from gpuenv.cli.output import Output
    from gpuenv.doctor.repair import Wound
    from gpuenv.install.environment import Scheme
    from gpuenv.install.holdings import Holdings
    from gpuenv.install.preparing import Prepared
    from gpuenv.install.records import Outcome, Plan
    from gpuenv.model.resolution import WheelChoice
    from gpuenv.report.report import Report

Examine = Callable[[], "Report"]


@dataclass(frozen=True, slots=True)
class Wish:
    """How to mend.

    Attributes:
        subject: the machine and the target.
        matrix: another matrix than the usual one.
        yes: no question.
        dry_run: only show the plan.
        offline: no network.
        out: where and how the plan is shown.
        in_report: whether a plan that is only to be shown goes into the report; else it is shown alone.
    """

    subject: Subject
    matrix: Path | None
    yes: bool
    dry_run: bool
    offline: bool
    out: Output
    in_report: bool


def mend(found: Report, examine: Examine, wish: Wish) -> Report:
    """Mends what may be mended; answers the report afterwards, which says what is left.

    Args:
        found: what the doctor has found.
        examine: asks the doctor again.
        wish: how.

    Raises:
        CommandError: when consent is missing, or there is no target.
        Exit: after a plan that was only to be shown, as text; the code is that of what was found.
    """
    from gpuenv.cli.changing.ending import stood
    from gpuenv.doctor.repair import wound_of
    from gpuenv.install.errors import ConsentNeeded, InstallError, NothingFits
    from gpuenv.install.records import Plan, Result

    wound = wound_of(found.findings, found.snapshot)
    if wound is None:
        return replace(found, repair=_nothing(found, "nothing here is for gpuenv to mend"))
    for title in dict.fromkeys(f"{f.code}: {f.title}" for f in found.findings if f.code in wound.codes):
        announce(f"to be mended: {title}")
    try:
        outcome = _transaction(found, wish, wound)
        if isinstance(outcome, Plan):
            return _planned(found, outcome, wish)
    except NothingFits as error:
        return replace(found, repair=_nothing(found, f"what would mend it cannot be had: {error.message}"))
    except ConsentNeeded as error:
        raise command_error(error) from error
    except InstallError as error:
        return _failed(found, stood(error, python=wish.subject.named), untouched=error.untouched)
    if outcome is None or outcome.status is Result.UNCHANGED:
        return replace(
            found,
            repair=_nothing(
                found, "nothing that gpuenv could install would mend it; what else to do stands with each finding"
            ),
        )
    return _told(found, examine(), outcome)


def _planned(found: Report, plan: Plan, wish: Wish) -> Report:
    from gpuenv.cli.changing.consent import show_plan
    from gpuenv.install.text import plan_lines

    if not wish.in_report:
        show_plan(plan, wish.out)
        raise typer.Exit(found.exit_code)
    lines = tuple(line.text for line in plan_lines(plan, verbose=wish.out.verbose))
    return replace(found, repair=Repair(RepairStatus.PLANNED, "Nothing was changed.", left=_codes(found), plan=lines))


def _nothing(found: Report, message: str) -> Repair:
    announce(message)
    return Repair(RepairStatus.NOTHING, f"{message[0].upper()}{message[1:].rstrip('.')}.", left=_codes(found))


def _failed(found: Report, error: CommandError, *, untouched: bool) -> Report:
    """What was found stays found; that it could not be mended has an exit code of its own."""
    announce(error.message)
    if error.remedy:
        complain(folded(error.remedy))
    status = RepairStatus.FAILED if untouched else RepairStatus.NOT_RESTORED
    repair = Repair(status, f"{error.message[0].upper()}{error.message[1:].rstrip('.')}.", left=_codes(found))
    return replace(found, repair=repair, exit_code=error.exit_code)


def _codes(report: Report) -> tuple[str, ...]:
    from gpuenv.model.finding import Severity

    return tuple(dict.fromkeys(f.code for f in report.findings if f.severity is not Severity.NOTE))


def _transaction(found: Report, wish: Wish, wound: Wound) -> Outcome | Plan | None:
    """Plans, asks, and carries it out; the plan alone for a dry run, nothing at all where no CuPy fits."""
    from gpuenv.cli.changing.transaction import Examined, Terms, target_scheme, transact
    from gpuenv.install.timing import Clock

    interpreter = interpreter_of(wish.subject)
    put_back_first(interpreter, None, dry_run=wish.dry_run, offline=wish.offline)
    scheme = target_scheme(interpreter, wish.subject, _means(wish))
    rows = get_matrix(wish.matrix)
    way = _way(scheme, Examined(wish.subject, found.snapshot, rows, found.resolution), wish, wound)
    if way is None:
        return None
    if wish.dry_run:
        return way()[0]
    return transact(
        interpreter, scheme, way, Terms(wish.out, yes=wish.yes, dry_run=False, offline=wish.offline), Clock()
    )


def _way(scheme: Scheme, examined: Examined, wish: Wish, wound: Wound) -> Way | None:
    """By conda where CuPy is conda's business, else by wheels; none where nothing would mend it.

    Raises:
        TargetUnusable: where the environment is pixi's to change.
    """
    from gpuenv.cli.changing.transaction import by_wheels
    from gpuenv.doctor.installed import is_condas
    from gpuenv.install.errors import TargetUnusable

    if examined.facts.target.made_by.value == "pixi":
        raise TargetUnusable(
            f"{scheme.prefix} belongs to a pixi project: pixi makes it what its manifest says, and takes out all else",
            "Let pixi do it: gpuenv doctor tells the commands.",
        )
    if is_condas(examined.facts.target):
        # Conda chooses and replaces whole packages; to put the same ones in anew is for a person: the fix says how.
        return _by_conda(scheme, examined, wish) if wound.choice else None
    requirements = _requirements(examined, scheme, wound)
    if requirements is None:
        return None
    return _numpy_may_move(by_wheels(lambda: _prepare(scheme, requirements, wish, wound), examined))


def _by_conda(scheme: Scheme, examined: Examined, wish: Wish) -> Way | None:
    """What fits beside the NumPy that is there, else what fits beside another one, which conda moves."""
    from gpuenv.cli.changing.conda import by_conda
    from gpuenv.doctor.repair import with_any_numpy
    from gpuenv.matrix.resolve import resolve

    resolution = examined.resolution
    if resolution.conda is None:
        resolution = resolve(with_any_numpy(examined.facts), examined.rows)
    if resolution.conda is None:
        return None
    return _numpy_may_move(by_conda(scheme, replace(examined, resolution=resolution), _means(wish)))


def _numpy_may_move(way: Way) -> Way:
    """That NumPy moves is a cure that the doctor names: whoever agrees to the plan agrees to it."""

    def planned() -> Planned:
        plan, carry_out = way()
        return replace(plan, moves=tuple(name for name in plan.moves if name != "numpy")), carry_out

    return planned


def _means(wish: Wish) -> Means:
    return Means(InstallerName.AUTO, wish.offline, break_system_packages=False, seconds=INSTALL_TIMEOUT)


def _requirements(examined: Examined, scheme: Scheme, wound: Wound) -> tuple[str, ...] | None:
    """What to ask the installer for: what is there, if that can be kept, else what the resolver chooses."""
    from gpuenv.doctor.repair import as_it_is

    if not wound.choice:
        return (*as_it_is(examined.facts), *wound.more)
    wheel = _chosen(examined, scheme, wound)
    return (*wheel.requirements, *wound.more) if wheel else None


def _chosen(examined: Examined, scheme: Scheme, wound: Wound) -> WheelChoice | None:
    """The wheel that mends: beside the NumPy that is there, else beside one that comes with it; None where none does.

    NumPy is not asked for: CuPy's own metadata moves it, so far as what else is there lets it.
    """
    from gpuenv.doctor.repair import choices, loses_libraries, will_do, with_any_numpy
    from gpuenv.install.holdings import take_stock

    facts = examined.facts
    # A toolkit of the host that CuPy has not found so far is none to count on.
    counted = replace(facts, toolkits=()) if wound.with_libraries else facts
    holdings = take_stock(scheme)
    tried: list[WheelChoice] = []
    for given in (counted, with_any_numpy(counted)):
        for narrowed in choices(facts, examined.rows, examined.resolution):
            wheel = resolved_for(given, narrowed, holdings).wheel
            if wheel is not None and will_do(wheel, wound, facts):
                return wheel
            tried += [wheel] if wheel is not None and given is counted else []
        # The resolver's free choice came last; what it lacks is for a person.
        if tried and not wound.with_libraries and not loses_libraries(tried[-1], wound, facts):
            return tried[-1]
    return None


def _prepare(scheme: Scheme, requirements: Sequence[str], wish: Wish, wound: Wound) -> Prepared:
    from gpuenv.install.holdings import take_stock
    from gpuenv.install.preparing import prepare

    holdings = take_stock(scheme)
    caller = caller_for(scheme, _means(wish))
    if wound.afresh and not wish.offline:
        announce(
            f"uv's cache may share the damage and is not used; to mend it too: uv cache clean {' '.join(wound.again)}"
        )
        caller = replace(caller, environment={**caller.environment, "UV_NO_CACHE": "1"})
    again = (*wound.again, *_owners(holdings, wound.sonames))
    return prepare(holdings, caller, requirements, again=again, cleared=wound.cleared)


def _owners(holdings: Holdings, sonames: Sequence[str]) -> tuple[str, ...]:
    """The distributions that own a file of these names."""
    names = {
        entry.name
        for entry in holdings.own.values()
        for place in _places(entry.metadata)
        if place.startswith(tuple(sonames))
    }
    return tuple(sorted(names)) if sonames else ()


def _places(metadata: str) -> list[str]:
    from gpuenv.install.record_file import read_record

    return [entry.path.rsplit("/", 1)[-1] for entry in read_record(metadata) or ()]


def _told(before: Report, after: Report, outcome: Outcome) -> Report:
    """The report afterwards, with what was done; a failure to mend has its own exit code."""
    from gpuenv.install.records import Result

    words = {Result.RESTORED: RepairStatus.RESTORED, Result.NOT_RESTORED: RepairStatus.NOT_RESTORED}
    status = words.get(outcome.status, RepairStatus.MENDED)
    left = _codes(after)
    repair = Repair(
        status=status,
        message=f"{outcome.message[0].upper()}{outcome.message[1:].rstrip('.')}.",
        gone=tuple(code for code in _codes(before) if code not in left),
        left=left,
        transaction=outcome.transaction,
        undo=outcome.undo.argv if outcome.undo else None,
    )
    exit_code = after.exit_code if status is RepairStatus.MENDED else int(outcome.exit_code)
    return replace(after, repair=repair, exit_code=exit_code)
