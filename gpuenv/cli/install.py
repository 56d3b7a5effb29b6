"""``gpuenv install``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
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
    Kernel,
    Means,
    NetworkOffline,
    Shown,
    Wanted,
    choice_of,
    command_error,
    interpreter_of,
    of_lock,
    put_back_first,
    require_target,
    resolved_for,
    show_outcome,
    target_of,
)
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.record import dataclass

if TYPE_CHECKING:
    from gpuenv.cli.transaction import Examined
    from gpuenv.install.environment import Scheme
    from gpuenv.install.executing import Clock
    from gpuenv.install.journal import Store
    from gpuenv.install.records import Outcome, Plan
    from gpuenv.model.resolution import Resolution

    Planned = tuple[Plan, Callable[[Store, Clock], Outcome]]


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
    kernel: Kernel = None,
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
    subject = Subject(target_of(python, kernel), None, assume or (), False, timeout, driver_root)
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
    from concurrent.futures import ThreadPoolExecutor

    from gpuenv.cli.consent import show_plan
    from gpuenv.cli.transaction import Examined, target_scheme
    from gpuenv.install.executing import Clock
    from gpuenv.install.holdings import take_stock
    from gpuenv.install.journal import Store
    from gpuenv.install.records import Result

    wishes, means = how
    interpreter = interpreter_of(subject)
    recovered = put_back_first(interpreter, None, dry_run=wishes.dry_run)
    clock = Clock()
    with clock.phase("examination"), ThreadPoolExecutor(1) as pool:
        asking = pool.submit(target_scheme, interpreter, subject, means)
        facts, rows = get_both(subject, matrix)
        require_target(facts)
        scheme = asking.result()
    examined = Examined(subject, facts, rows, resolved_for(facts, rows, take_stock(scheme)))
    with tempfile.TemporaryDirectory(prefix="gpuenv-") as scratch:
        planned = _way(scheme, examined, (wishes, means), Path(scratch))
        if wishes.dry_run:
            show_plan(planned()[0], shown)
            return ExitCode.OK
        store = Store(Path(scheme.root))
        with store.locked():
            recovered += put_back_first(interpreter, store, dry_run=False, held=True)
            with clock.phase("plan"):
                plan, carry_out = planned()
            done = _go(plan, partial(carry_out, store, clock), wishes, shown)
            if done.status in (Result.UNCHANGED, Result.INSTALLED) and wishes.guard is not None:
                _leave_guard(scheme, wishes.guard)
    show_outcome(replace(done, recovered=recovered), shown)
    return done.exit_code


def _way(scheme: Scheme, examined: Examined, how: tuple[Wishes, Means], scratch: Path) -> Callable[[], Planned]:
    """How the plan is made: of conda packages for conda's environments, of wheels for all others."""
    from gpuenv.cli.conda_install import plan_conda, run_conda, takes_conda
    from gpuenv.cli.transaction import plan_install, run_transaction

    wishes, means = how
    if takes_conda(scheme, means):
        _refuse_for_conda(wishes)

        def of_conda() -> Planned:
            found = plan_conda(scheme, examined.resolution, means)
            return found.plan, lambda store, clock: run_conda(found, store, examined, clock)

        return of_conda
    wanted, means = _what(examined.resolution, wishes, (means, scheme), scratch)

    def of_wheels() -> Planned:
        found = plan_install(scheme, wanted, means)
        return found.plan, lambda store, clock: run_transaction(found, store, examined, clock)

    return of_wheels


def _refuse_for_conda(wishes: Wishes) -> None:
    for option, given in (("--locked", wishes.locked), ("--bundle", wishes.bundle), ("--guard", wishes.guard)):
        if given is not None:
            raise CommandError(
                ExitCode.USAGE,
                f"{option} is for wheels, and conda packages would be installed into this environment",
                "add --installer uv (or pip) to install wheels; conda's own guard is conda-meta/pinned",
            )


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


def _go(plan: Plan, carry_out: Callable[[], Outcome], wishes: Wishes, shown: Shown) -> Outcome:
    """Asks and executes."""
    from gpuenv.cli.consent import agree
    from gpuenv.install.records import Outcome, Result

    if plan.empty:
        message = f"{' '.join(plan.requirements)} is there already"
        return Outcome(Result.UNCHANGED, ExitCode.OK, message, None, plan.target, plan)
    agree(plan, shown, yes=wishes.yes, allow_changes=wishes.allow_changes)
    return carry_out()


def _leave_guard(scheme: Scheme, path: Path) -> None:
    """A constraint file with the versions that were chosen, and how to use it."""
    from gpuenv.cli.output import write_file
    from gpuenv.install.guard import guard_text
    from gpuenv.install.holdings import take_stock

    there = take_stock(scheme).own.values()
    write_file(path, guard_text({entry.name: entry.release for entry in there}), shared=True)
    announce(f"to keep later installs to this choice: pip install --constraint {path} ..., or PIP_CONSTRAINT={path}")
