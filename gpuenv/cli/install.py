"""``gpuenv install``."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.errors import CommandError
from gpuenv.cli.gather import Subject, announce, get_both
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.install.environment import Scheme
    from gpuenv.install.errors import InstallError
    from gpuenv.install.executing import Work
    from gpuenv.install.journal import Store
    from gpuenv.install.preparing import Prepared
    from gpuenv.install.proving import Diagnosed
    from gpuenv.install.records import Outcome, Pin
    from gpuenv.matrix.records import Matrix
    from gpuenv.model.resolution import Resolution
    from gpuenv.model.snapshot import Snapshot


class InstallerName(str, Enum):
    """What to install with."""

    AUTO = "auto"
    UV = "uv"
    PIP = "pip"


@dataclass(frozen=True, slots=True)
class Shown:
    """How results are shown."""

    output_format: options.Format
    output: Path | None
    color: bool
    redacted: bool
    verbose: bool


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the caller agrees to and asks for beside the target.

    Attributes:
        locked: a lock file whose pins are installed instead of the resolver's.
        bundle: a bundle to install from.
        installer: what to install with.
        offline: no network.
        break_system_packages: an externally managed Python may be changed.
        allow_changes: packages that are not CuPy's may move.
        yes: no question.
        dry_run: only show the plan.
        deadline: seconds that the installer may take.
    """

    locked: Path | None
    bundle: Path | None
    installer: InstallerName
    offline: bool
    break_system_packages: bool
    allow_changes: bool
    yes: bool
    dry_run: bool
    deadline: float


def install(
    python: options.Python = None,
    assume: options.Assume = None,
    locked: Annotated[
        Optional[Path],
        typer.Option("--locked", metavar="FILE", help="Install exactly what a lock file names (see gpuenv lock)."),
    ] = None,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Packages that are not CuPy's may change their version.")
    ] = False,
    installer: Annotated[InstallerName, typer.Option("--installer", help="What to install with.")] = InstallerName.AUTO,
    break_system_packages: Annotated[
        bool, typer.Option("--break-system-packages", help="Change even a Python that the system manages.")
    ] = False,
    matrix: options.MatrixFile = None,
    output_format: options.OutputFormat = options.Format.TEXT,
    output: options.OutputFile = None,
    offline: Annotated[bool, typer.Option("--offline", help="Use no network: what the cache of uv holds.")] = False,
    no_color: options.NoColor = False,
    verbose: options.Verbose = False,
    timeout: options.Timeout = 30.0,
    install_timeout: Annotated[
        float, typer.Option("--install-timeout", metavar="SECONDS", min=1, help="How long the installer may take.")
    ] = 3600.0,
    redact: options.Redact = True,
    driver_root: options.DriverRoot = "/",
) -> None:
    """Install the CuPy that fits, as one transaction: shown, proven, kept, or put back as it was.

    Exit code: 0 installed or nothing to do, 2 consent is missing, 3 no wheel fits, 4 failed and the former state is
    back, 7 the target cannot be used.
    """
    subject = Subject(python, None, assume or (), False, timeout, driver_root)
    wishes = Wishes(
        locked, None, installer, offline, break_system_packages, allow_changes, yes, dry_run, install_timeout
    )
    shown = Shown(output_format, output, not no_color, redact, verbose)
    from gpuenv.install.errors import InstallError

    try:
        code = run_install(subject, matrix, wishes, shown)
    except InstallError as error:
        raise command_error(error) from error
    raise typer.Exit(code)


def command_error(error: InstallError) -> CommandError:
    """The exit code of what ended an install early."""
    from gpuenv.install.errors import ConsentNeeded, NothingFits, TargetUnusable

    codes = {
        TargetUnusable: ExitCode.TARGET_UNUSABLE,
        NothingFits: ExitCode.NOTHING_FITS,
        ConsentNeeded: ExitCode.USAGE,
    }
    return CommandError(codes.get(type(error), ExitCode.FAILED), error.message, error.remedy)


def run_install(subject: Subject, matrix: Path | None, wishes: Wishes, shown: Shown) -> int:
    """The whole command; answers the exit code.

    Raises:
        InstallError: when it ended early.
        CommandError: likewise.
    """
    interpreter = interpreter_of(subject)
    recovered = put_back_first(interpreter, None, dry_run=wishes.dry_run)
    facts, rows = get_both(subject, matrix)
    resolution, requirements, pins = _what(facts, rows, wishes)
    from gpuenv.install.environment import ask_scheme
    from gpuenv.install.journal import Store
    from gpuenv.install.preparing import refuse_unusable

    scheme = ask_scheme(interpreter, os.environ, time.monotonic() + subject.timeout)
    refuse_unusable(scheme, break_system_packages=wishes.break_system_packages)
    store = Store(Path(scheme.root))
    if wishes.dry_run:
        prepared = _prepare(scheme, requirements, pins, wishes)
        _show_plan(prepared, shown)
        return ExitCode.OK
    with store.locked():
        recovered += put_back_first(interpreter, store, dry_run=False, held=True)
        prepared = _prepare(scheme, requirements, pins, wishes)
        return _go(_work(prepared, store, subject, (facts, rows, resolution)), wishes, shown, recovered)


def interpreter_of(subject: Subject) -> str:
    """The target's interpreter.

    Raises:
        CommandError: when there is none.
    """
    from gpuenv.probe.target import TargetError, find_interpreter

    try:
        found = find_interpreter(subject.python, os.environ)
    except TargetError as error:
        raise CommandError(ExitCode.USAGE, str(error)) from error
    if found is None:
        raise CommandError(ExitCode.TARGET_UNUSABLE, "there is no Python on PATH", "name one with --python")
    return found


def put_back_first(interpreter: str, store: Store | None, *, dry_run: bool, held: bool = False) -> tuple[str, ...]:
    """Finishes what an interrupted install has left; also where the interpreter has gone.

    Raises:
        InstallError: when it cannot be put back.
    """
    from gpuenv.install.recovery import recover, store_of

    store = store or store_of(interpreter)
    if store is None:
        return ()
    if held:
        found = recover(store)
    elif dry_run:
        return ()
    else:
        with store.locked():
            found = recover(store)
    for number in found:
        announce(f"the interrupted install {number} was put back")
    return found


def _what(facts: Snapshot, rows: Matrix, wishes: Wishes) -> tuple[Resolution, tuple[str, ...], tuple[Pin, ...] | None]:
    """What to install: the resolver's choice, or what a lock file names."""
    from gpuenv.matrix.resolve import resolve
    from gpuenv.model.snapshot import SourceState

    resolution = resolve(facts, rows)
    target = facts.source("target")
    if target.state is not SourceState.ANSWERED:
        raise CommandError(
            ExitCode.TARGET_UNUSABLE,
            f"{facts.target.executable.value or 'the target'}: cannot be used: {target.detail or target.state.value}",
            "Make the environment anew, or name another one with --python.",
        )
    if wishes.locked is not None:
        from gpuenv.cli.lockfile import read_lock

        pins = read_lock(wishes.locked)
        return resolution, tuple(f"{pin.name}=={pin.release}" for pin in pins), pins
    if resolution.wheel is None:
        raise CommandError(
            ExitCode.NOTHING_FITS,
            "no wheel fits: nothing was changed\n" + resolution.explanation,
            "To install for another machine than this one, say which: --assume driver=580.95.05 --assume gpu=H100",
        )
    return resolution, resolution.wheel.requirements, None


def _prepare(scheme: Scheme, requirements: tuple[str, ...], pins: tuple[Pin, ...] | None, wishes: Wishes) -> Prepared:
    from gpuenv.install.backends.base import Options
    from gpuenv.install.choose import choose
    from gpuenv.install.holdings import take_stock
    from gpuenv.install.preparing import prepare
    from gpuenv.install.resolving import Caller
    from gpuenv.probe.children import ChildGroup

    deadline = time.monotonic() + wishes.deadline
    installer = choose(wishes.installer.value, scheme, os.environ, deadline)
    chosen = Options(scheme.executable, wishes.offline, None, wishes.break_system_packages)
    caller = Caller(installer, chosen, dict(os.environ), deadline, ChildGroup())
    return prepare(take_stock(scheme), caller, requirements, pins)


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
    if plan.empty:
        message = f"{' '.join(plan.requirements)} is there already"
        done = Outcome(Result.UNCHANGED, ExitCode.OK, message, None, plan.target, plan, recovered=recovered)
        return _show_outcome(done, shown)
    _ask(work.prepared, wishes, shown)
    _refuse_without_room(work.prepared)
    return _show_outcome(replace(execute(work), recovered=recovered), shown)


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


def show_outcome(outcome: Outcome, shown: Shown) -> None:
    """The summary."""
    if shown.output_format is options.Format.JSON:
        from gpuenv.cli.output import emit_json

        emit_json(outcome, shown.output, redacted=shown.redacted)
    else:
        from gpuenv.cli.output import emit_lines
        from gpuenv.install.text import outcome_lines

        lines = outcome_lines(outcome, verbose=shown.verbose)
        emit_lines(lines, shown.output, color=shown.color, redacted=shown.redacted)
