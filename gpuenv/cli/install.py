"""``gpuenv install``."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.errors import CommandError
from gpuenv.cli.gather import Subject, announce, get_both
from gpuenv.cli.installing import (
    Installer,
    InstallerName,
    InstallTimeout,
    Means,
    NetworkOffline,
    Shown,
    Wanted,
    caller_for,
    choice_of,
    command_error,
    interpreter_of,
    of_lock,
    put_back_first,
    require_target,
    resolved_for,
    show_outcome,
)
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.install.environment import Scheme
    from gpuenv.install.executing import Clock, Work
    from gpuenv.install.journal import Store
    from gpuenv.install.preparing import Prepared
    from gpuenv.install.proving import Diagnosed
    from gpuenv.install.records import Outcome
    from gpuenv.matrix.records import Matrix
    from gpuenv.model.resolution import Resolution
    from gpuenv.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the caller agrees to and asks for beside the target.

    Attributes:
        locked: a lock file whose pins are installed instead of the resolver's.
        bundle: a bundle to install from.
        guard: where to leave a constraint file.
        allow_changes: packages that are not CuPy's may move.
        yes: no question.
        dry_run: only show the plan.
    """

    locked: Path | None
    bundle: Path | None
    guard: Path | None
    allow_changes: bool
    yes: bool
    dry_run: bool


def install(
    python: options.Python = None,
    assume: options.Assume = None,
    locked: Annotated[
        Optional[Path],
        typer.Option("--locked", metavar="FILE", help="Install exactly what a lock file names (see gpuenv lock)."),
    ] = None,
    bundle: Annotated[
        Optional[Path],
        typer.Option("--bundle", metavar="FILE", help="Install from a bundle, without a network (see gpuenv bundle)."),
    ] = None,
    guard: Annotated[
        Optional[Path],
        typer.Option(
            "--guard", metavar="FILE", help="Leave a constraint file that keeps later installs to the choice."
        ),
    ] = None,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Packages that are not CuPy's may change their version.")
    ] = False,
    installer: Installer = InstallerName.AUTO,
    break_system_packages: Annotated[
        bool, typer.Option("--break-system-packages", help="Change even a Python that the system manages.")
    ] = False,
    matrix: options.MatrixFile = None,
    output_format: options.OutputFormat = options.Format.TEXT,
    output: options.OutputFile = None,
    offline: NetworkOffline = False,
    no_color: options.NoColor = False,
    verbose: options.Verbose = False,
    timeout: options.Timeout = 30.0,
    install_timeout: InstallTimeout = 3600.0,
    redact: options.Redact = True,
    driver_root: options.DriverRoot = "/",
) -> None:
    """Install the CuPy that fits, as one transaction: shown, proven, kept, or put back as it was.

    Exit code: 0 installed or nothing to do, 2 consent is missing, 3 no wheel fits, 4 failed and the former state is
    back, 7 the target cannot be used.
    """
    subject = Subject(python, None, assume or (), False, timeout, driver_root)
    if locked is not None and bundle is not None:
        raise CommandError(ExitCode.USAGE, "--locked and --bundle exclude each other: a bundle has its own lock")
    means = Means(installer, offline or bundle is not None, break_system_packages, install_timeout)
    wishes = Wishes(locked, bundle, guard, allow_changes, yes, dry_run)
    shown = Shown(output_format, output, not no_color, redact, verbose)
    from gpuenv.install.errors import InstallError

    try:
        code = run_install(subject, matrix, (wishes, means), shown)
    except InstallError as error:
        raise command_error(error) from error
    raise typer.Exit(code)


def run_install(subject: Subject, matrix: Path | None, how: tuple[Wishes, Means], shown: Shown) -> int:
    """The whole command; answers the exit code.

    Raises:
        InstallError: when it ended early.
        CommandError: likewise.
    """
    import tempfile

    from gpuenv.install.holdings import take_stock

    wishes, means = how
    interpreter = interpreter_of(subject)
    recovered = put_back_first(interpreter, None, dry_run=wishes.dry_run)
    clock = _clock()
    with clock.phase("probe"):
        facts, rows = get_both(subject, matrix)
    require_target(facts)
    scheme = _scheme(interpreter, subject, means)
    resolution = resolved_for(facts, rows, take_stock(scheme))
    with tempfile.TemporaryDirectory(prefix="gpuenv-") as scratch:
        wanted, means = _what(resolution, wishes, (means, scheme), Path(scratch))
        if wishes.dry_run:
            _show_plan(_prepare(scheme, wanted, means), shown)
            return ExitCode.OK
        from gpuenv.install.journal import Store

        store = Store(Path(scheme.root))
        with store.locked():
            recovered += put_back_first(interpreter, store, dry_run=False, held=True)
            with clock.phase("plan"):
                prepared = _prepare(scheme, wanted, means)
            work = replace(_work(prepared, store, subject, (facts, rows, resolution)), clock=clock)
            return _go(work, wishes, shown, recovered)


def _clock() -> Clock:
    from gpuenv.install.executing import Clock

    return Clock()


def _scheme(interpreter: str, subject: Subject, means: Means) -> Scheme:
    from gpuenv.install.environment import ask_scheme
    from gpuenv.install.preparing import refuse_unusable

    scheme = ask_scheme(interpreter, os.environ, time.monotonic() + subject.timeout)
    refuse_unusable(scheme, break_system_packages=means.break_system_packages)
    return scheme


def _what(resolution: Resolution, wishes: Wishes, where: tuple[Means, Scheme], scratch: Path) -> tuple[Wanted, Means]:
    """What to install, and from where: as the resolver chose, as a lock file names, or out of a bundle."""
    means, scheme = where
    if wishes.bundle is not None:
        from gpuenv.cli.bundle import fitting_bundle

        found = fitting_bundle(wishes.bundle, scratch, scheme)
        return of_lock(found.pins, resolution, wishes.bundle), replace(means, find_links=str(found.wheels))
    if wishes.locked is not None:
        from gpuenv.cli.lockfile import read_lock

        return of_lock(read_lock(wishes.locked), resolution, wishes.locked), means
    return choice_of(resolution), means


def _prepare(scheme: Scheme, wanted: Wanted, means: Means) -> Prepared:
    from gpuenv.install.holdings import take_stock
    from gpuenv.install.preparing import prepare

    return prepare(take_stock(scheme), caller_for(scheme, means), wanted.requirements, wanted.pins)


def _work(prepared: Prepared, store: Store, subject: Subject, before: tuple[Snapshot, Matrix, Resolution]) -> Work:
    from datetime import datetime, timezone

    from gpuenv.install.executing import Work
    from gpuenv.install.proving import Child
    from gpuenv.probe.children import ChildGroup

    facts, rows, resolution = before
    libraries_elsewhere = resolution.wheel is not None and resolution.wheel.needs_toolkit is not None
    executable = prepared.holdings.scheme.executable
    return Work(
        prepared=prepared,
        store=store,
        child=Child(executable, dict(os.environ), max(60.0, subject.timeout), ChildGroup()),
        before=_diagnosed(facts, rows, libraries_elsewhere=libraries_elsewhere),
        diagnose=lambda: _diagnosed(_again(subject, rows), rows, libraries_elsewhere=libraries_elsewhere),
        announce=announce,
        created_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )


def _again(subject: Subject, rows: Matrix) -> Snapshot:
    from gpuenv.cli.gather import get_snapshot

    return get_snapshot(subject, rows)


def _diagnosed(facts: Snapshot, rows: Matrix, *, libraries_elsewhere: bool) -> Diagnosed:
    """The doctor's errors about the target itself; the machine's are not of the installer's making."""
    from gpuenv.doctor.diagnose import diagnose
    from gpuenv.install.proving import Diagnosed
    from gpuenv.matrix.resolve import resolve
    from gpuenv.model.finding import Severity

    found = diagnose(facts, rows, resolve(facts, rows), time.monotonic).findings
    families = ("WHL", "ENV") if libraries_elsewhere else ("WHL", "ENV", "LIB")
    errors = {f.code: f.title for f in found if f.severity is Severity.ERROR and f.code.startswith(families)}
    return Diagnosed(errors)


def _go(work: Work, wishes: Wishes, shown: Shown, recovered: tuple[str, ...]) -> int:
    """Asks, executes, and shows what came of it."""
    from gpuenv.install.executing import execute
    from gpuenv.install.records import Outcome, Result

    plan = work.prepared.plan
    if plan.empty and wishes.guard is not None:
        _leave_guard(work.prepared, wishes.guard)
    if plan.empty:
        message = f"{' '.join(plan.requirements)} is there already"
        done = Outcome(Result.UNCHANGED, ExitCode.OK, message, None, plan.target, plan, recovered=recovered)
        return _show_outcome(done, shown)
    _ask(work.prepared, wishes, shown)
    _refuse_without_room(work.prepared)
    done = execute(work)
    if done.status is Result.INSTALLED and wishes.guard is not None:
        _leave_guard(work.prepared, wishes.guard)
    return _show_outcome(replace(done, recovered=recovered), shown)


def _leave_guard(prepared: Prepared, path: Path) -> None:
    """A constraint file with the versions that were chosen, and how to use it."""
    from gpuenv.cli.output import write_file
    from gpuenv.install.guard import guard_text
    from gpuenv.install.holdings import take_stock

    there = take_stock(prepared.holdings.scheme).own.values()
    write_file(path, guard_text({entry.name: entry.release for entry in there}), shared=True)
    announce(f"to keep later installs to this choice: pip install --constraint {path} ..., or PIP_CONSTRAINT={path}")


def _ask(prepared: Prepared, wishes: Wishes, shown: Shown) -> None:
    """Consent, or the end.

    Raises:
        ConsentNeeded: when it is missing and nobody can be asked.
        Abort: when the answer is no.
    """
    from gpuenv.install.errors import ConsentNeeded

    plan = prepared.plan
    if plan.moves and not wishes.allow_changes:
        _show_plan(prepared, shown)
        raise ConsentNeeded(
            f"packages that are not CuPy's would change: {', '.join(plan.moves)}; nothing was changed",
            "Agree with --allow-changes, or install into an environment of its own.",
        )
    if wishes.yes:
        if shown.output_format is options.Format.TEXT:
            _show_plan_beside(prepared, shown)
        return
    _show_plan(prepared, replace(shown, output=None))
    if not (sys.stdin is not None and sys.stdin.isatty() and shown.output_format is options.Format.TEXT):
        raise ConsentNeeded("nobody can be asked here, and nothing was changed", "Agree to the plan with --yes.")
    if not typer.confirm("Go ahead?", err=True):
        raise ConsentNeeded("not agreed to; nothing was changed")


def _refuse_without_room(prepared: Prepared) -> None:
    from gpuenv.install.errors import InstallFailed
    from gpuenv.install.text import size_text

    space = prepared.plan.space
    if space.download is not None and space.free is not None and space.free < space.download:
        raise InstallFailed(
            f"{size_text(space.download)} are to be downloaded and {size_text(space.free)} are free; "
            "nothing was changed",
            "Make room on the disk that the environment is on.",
        )


def _show_plan(prepared: Prepared, shown: Shown) -> None:
    if shown.output_format is options.Format.JSON:
        from gpuenv.cli.output import emit_json

        emit_json(prepared.plan, shown.output, redacted=shown.redacted)
    else:
        from gpuenv.cli.output import emit_lines
        from gpuenv.install.text import plan_lines

        lines = plan_lines(prepared.plan, verbose=shown.verbose)
        emit_lines(lines, shown.output, color=shown.color, redacted=shown.redacted)


def _show_plan_beside(prepared: Prepared, shown: Shown) -> None:
    """The plan that was agreed to beforehand, on standard error: the result alone goes to standard output."""
    from gpuenv.cli.output import write_stderr
    from gpuenv.install.text import plan_lines

    write_stderr(plan_lines(prepared.plan, verbose=shown.verbose))


def _show_outcome(outcome: Outcome, shown: Shown) -> int:
    show_outcome(outcome, shown)
    return outcome.exit_code
