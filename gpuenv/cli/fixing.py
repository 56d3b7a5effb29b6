"""``gpuenv doctor --fix``: what may be mended inside the target, by the installer's transaction."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gpuenv.cli.gather import Subject, announce, get_matrix
from gpuenv.cli.installing import (
    InstallerName,
    Means,
    caller_for,
    command_error,
    interpreter_of,
    put_back_first,
    resolved_for,
)
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.repair import Repair, RepairStatus

if TYPE_CHECKING:
    from gpuenv.doctor.mending import Wound
    from gpuenv.install.environment import Scheme
    from gpuenv.install.executing import Work
    from gpuenv.install.holdings import Holdings
    from gpuenv.install.journal import Store
    from gpuenv.install.preparing import Prepared
    from gpuenv.install.proving import Diagnosed
    from gpuenv.install.records import Outcome
    from gpuenv.matrix.records import Matrix
    from gpuenv.report.report import Report

_SECONDS = 3600.0  # that the installer may take
_OF_THE_TARGET = ("WHL", "ENV", "LIB")
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
    """

    subject: Subject
    matrix: Path | None
    yes: bool
    dry_run: bool
    offline: bool


def mend(found: Report, examine: Examine, wish: Wish) -> Report:
    """Mends what may be mended; answers the report afterwards, which says what is left.

    Args:
        found: what the doctor has found.
        examine: asks the doctor again.
        wish: how.

    Raises:
        CommandError: when consent is missing, or the target cannot be used.
        Exit: after a plan that was only to be shown.
    """
    from gpuenv.doctor.mending import wound_of
    from gpuenv.install.errors import InstallError

    wound = wound_of(found.findings, found.snapshot)
    if wound is None:
        return replace(found, repair=_nothing(found, "nothing here is for gpuenv to mend"))
    try:
        outcome, after = _transaction(found, examine, wish, wound)
    except InstallError as error:
        raise command_error(error) from error
    if outcome is None:
        return replace(found, repair=_nothing(found, "nothing that could be installed would mend it"))
    return _told(found, after or examine(), outcome)


def _nothing(found: Report, message: str) -> Repair:
    announce(message)
    return Repair(RepairStatus.NOTHING, f"{message[0].upper()}{message[1:]}.", left=_codes(found))


def _codes(report: Report) -> tuple[str, ...]:
    from gpuenv.model.finding import Severity

    return tuple(dict.fromkeys(f.code for f in report.findings if f.severity is not Severity.NOTE))


def _transaction(found: Report, examine: Examine, wish: Wish, wound: Wound) -> tuple[Outcome | None, Report | None]:
    """Plans, asks, and carries it out; nothing at all where no CuPy fits."""
    from gpuenv.install.executing import execute
    from gpuenv.install.journal import Store

    interpreter = interpreter_of(wish.subject)
    put_back_first(interpreter, None, dry_run=wish.dry_run)
    scheme = _scheme(interpreter, wish)
    rows = get_matrix(wish.matrix)
    requirements = _requirements(found, rows, scheme, wound)
    if requirements is None:
        return None, None
    if wish.dry_run:
        _show(_prepare(scheme, requirements, wish, wound), beside=False)
        raise typer.Exit(ExitCode.OK)
    store = Store(Path(scheme.root))
    with store.locked():
        put_back_first(interpreter, store, dry_run=False, held=True)
        prepared = _prepare(scheme, requirements, wish, wound)
        if prepared.plan.empty:
            return None, None
        _ask(prepared, wish)
        seen: list[Report] = []
        outcome = execute(_work(prepared, store, (found, examine, seen), wish))
    return outcome, seen[-1] if seen else None


def _scheme(interpreter: str, wish: Wish) -> Scheme:
    from gpuenv.install.environment import ask_scheme
    from gpuenv.install.preparing import refuse_unusable

    scheme = ask_scheme(interpreter, os.environ, time.monotonic() + wish.subject.timeout)
    refuse_unusable(scheme, break_system_packages=False)
    return scheme


def _requirements(found: Report, rows: Matrix, scheme: Scheme, wound: Wound) -> tuple[str, ...] | None:
    """What to ask the installer for: what is there, if that can be kept, else what the resolver chooses."""
    from gpuenv.doctor.mending import as_it_is, choices, will_do
    from gpuenv.install.holdings import take_stock

    facts = found.snapshot
    if not wound.choice:
        return (*as_it_is(facts), *wound.more)
    # A toolkit of the host that CuPy has not found so far is none to count on.
    counted = replace(facts, toolkits=()) if wound.with_libraries else facts
    holdings = take_stock(scheme)
    wheel = None
    for narrowed in choices(facts, rows, found.resolution):
        wheel = resolved_for(counted, narrowed, holdings).wheel
        if wheel is not None and will_do(wheel, wound, facts):
            break
    else:  # the resolver's free choice came last; what it lacks then is for a person
        if wheel is None or wound.with_libraries:
            return None
    return (*wheel.requirements, *wound.more)


def _prepare(scheme: Scheme, requirements: Sequence[str], wish: Wish, wound: Wound) -> Prepared:
    from gpuenv.install.holdings import take_stock
    from gpuenv.install.preparing import prepare

    holdings = take_stock(scheme)
    caller = caller_for(scheme, Means(InstallerName.AUTO, wish.offline, break_system_packages=False, seconds=_SECONDS))
    if wound.afresh and not wish.offline:
        announce(
            f"uv's cache may share the damage and is not used; to mend it too: uv cache clean {' '.join(wound.again)}"
        )
        caller = replace(caller, environment={**caller.environment, "UV_NO_CACHE": "1"})
    again = (*wound.again, *_owners(holdings, wound.sonames))
    return prepare(holdings, caller, requirements, again=again)


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


def _work(prepared: Prepared, store: Store, doctor: tuple[Report, Examine, list[Report]], wish: Wish) -> Work:
    from datetime import datetime, timezone

    from gpuenv.install.executing import Work
    from gpuenv.install.proving import Child
    from gpuenv.probe.children import ChildGroup

    before, examine, seen = doctor

    def again() -> Diagnosed:
        seen.append(examine())
        return _diagnosed(seen[-1])

    executable = prepared.holdings.scheme.executable
    return Work(
        prepared=prepared,
        store=store,
        child=Child(executable, dict(os.environ), max(60.0, wish.subject.timeout), ChildGroup()),
        before=_diagnosed(before),
        diagnose=again,
        announce=announce,
        created_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )


def _diagnosed(report: Report) -> Diagnosed:
    """The doctor's errors about the target itself; the machine's are not of the installer's making."""
    from gpuenv.install.proving import Diagnosed
    from gpuenv.model.finding import Severity

    errors = [f for f in report.findings if f.severity is Severity.ERROR and f.code.startswith(_OF_THE_TARGET)]
    return Diagnosed({finding.code: finding.title for finding in errors})


def _ask(prepared: Prepared, wish: Wish) -> None:
    """Consent, or the end.

    Raises:
        ConsentNeeded: when it is missing and nobody can be asked, or the answer is no.
    """
    from gpuenv.install.errors import ConsentNeeded

    if prepared.plan.moves:
        _show(prepared, beside=True)
        raise ConsentNeeded(
            f"packages that are not CuPy's would change: {', '.join(prepared.plan.moves)}; nothing was changed",
            "Agree with gpuenv install --allow-changes, or make an environment of its own.",
        )
    _show(prepared, beside=wish.yes)
    if wish.yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConsentNeeded("nobody can be asked here, and nothing was changed", "Agree to the plan with --yes.")
    if not typer.confirm("Go ahead?", err=True):
        raise ConsentNeeded("not agreed to; nothing was changed")


def _show(prepared: Prepared, *, beside: bool) -> None:
    """The plan: on standard error where a report is to follow on standard output."""
    from gpuenv.cli.output import emit_lines, write_stderr
    from gpuenv.install.text import plan_lines

    lines = plan_lines(prepared.plan)
    if beside:
        write_stderr(lines)
    else:
        emit_lines(lines, None, color=False)


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
