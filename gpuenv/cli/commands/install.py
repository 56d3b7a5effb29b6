"""``gpuenv install``."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.announce import announce
from gpuenv.cli.changing.choices import (
    INSTALL_TIMEOUT,
    Installer,
    InstallerName,
    InstallTimeout,
    Kernel,
    Means,
    NetworkOffline,
    Wanted,
    caller_for,
    choice_of,
    installer_for,
    interpreter_of,
    of_lock,
    put_back_first,
    require_target,
    resolved_for,
    show_outcome,
    target_of,
)
from gpuenv.cli.errors import CommandError
from gpuenv.cli.inputs import Beginning, Subject, get_matrix
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from concurrent.futures import Future

    from gpuenv.cli.changing.transaction import Examined, Way
    from gpuenv.cli.output import Output
    from gpuenv.install.backends.base import Installer as WheelInstaller
    from gpuenv.install.environment import Scheme
    from gpuenv.install.preparing import Prepared
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
    timeout: options.Timeout = options.TIMEOUT,
    install_timeout: InstallTimeout = INSTALL_TIMEOUT,
    redact: options.Redact = True,
    driver_root: options.DriverRoot = "/",
) -> None:
    """Install the CuPy that fits, as one transaction.

    The plan is shown, the new state proven and kept, or the former one put back.

    Exit code: 0 installed or nothing to do, 2 consent is missing, 3 no wheel fits, 4 failed and the former state is
    back, 7 the target cannot be used.
    """
    from gpuenv.cli.changing.ending import ending
    from gpuenv.cli.changing.lockfile import read_lock
    from gpuenv.cli.formats import check_places
    from gpuenv.cli.output import Output

    check_places([output, guard])
    subject = Subject(target_of(python, kernel), None, assume or (), False, timeout, driver_root)
    if locked is not None and bundle is not None:
        raise CommandError(ExitCode.USAGE, "--locked and --bundle exclude each other: a bundle has its own lock")
    means = Means(installer, offline or bundle is not None, break_system_packages, install_timeout)
    out = Output(output, output_format is options.Format.JSON, not no_color, redact, verbose)
    with ending(out, subject.named) as recovered:
        if locked is not None:
            read_lock(locked)  # what is wrong in it is told before the target is asked
        wishes = Wishes(locked, bundle, guard, allow_changes, yes, dry_run)
        code = run_install(subject, matrix, (wishes, means), out, recovered)
    raise typer.Exit(code)


def run_install(
    subject: Subject, matrix: Path | None, how: tuple[Wishes, Means], out: Output, recovered: list[str]
) -> int:
    """The whole command; answers the exit code, and notes the interrupted installs that were put back first.

    Raises:
        InstallError: when it ended early.
        CommandError: likewise.
    """
    from gpuenv.install.timing import Clock

    wishes, means = how
    clock = Clock(time.monotonic())
    interpreter = interpreter_of(subject)
    recovered += put_back_first(interpreter, None, dry_run=wishes.dry_run, offline=means.offline)
    clock.begin("examination")
    target, facts, rows = _examination(interpreter, subject, matrix, means)
    clock.begin("resolution")
    import tempfile

    from gpuenv.cli.changing.transaction import Examined, Terms, transact
    from gpuenv.install.holdings import take_stock
    from gpuenv.install.records import Result

    scheme = target.scheme
    examined = Examined(subject, facts, rows, resolved_for(facts, rows, take_stock(scheme)))
    with tempfile.TemporaryDirectory(prefix="gpuenv-") as scratch:
        way = _way(target, examined, (wishes, means), Path(scratch))
        terms = Terms(out, wishes.yes, wishes.dry_run, wishes.allow_changes, means.offline)
        done = transact(interpreter, scheme, way, terms, clock)
    if done is None:
        return ExitCode.OK
    if done.status in (Result.UNCHANGED, Result.INSTALLED) and wishes.guard is not None:
        _leave_guard(scheme, wishes.guard)
    show_outcome(replace(done, recovered=(*recovered, *done.recovered)), out)
    return done.exit_code


@dataclass(frozen=True, slots=True)
class Target:
    """The target's folders, and the installer of wheels for it, which is chosen while the machine is asked."""

    scheme: Scheme
    choosing: Future[WheelInstaller | None]


def _examination(
    interpreter: str, subject: Subject, matrix: Path | None, means: Means
) -> tuple[Target, Snapshot, Matrix]:
    """Asks the machine and the target; what is needed later is imported while they answer.

    Raises:
        InstallError: when the target may not be installed into.
        CommandError: when it does not answer, or there is no matrix.
    """
    from concurrent.futures import ThreadPoolExecutor

    from gpuenv.probe.children import ChildGroup

    # The children first: forks can be made from a single thread only. Whoever is interrupted waits for none of them.
    with ThreadPoolExecutor(1) as pool, closing(ChildGroup()) as group, closing(Beginning(subject)) as beginning:
        from gpuenv.cli.changing.transaction import target_scheme

        asking = pool.submit(target_scheme, interpreter, subject, means, group)
        choosing = pool.submit(lambda: _installer(asking.result(), means))
        rows = get_matrix(matrix)
        import gpuenv.install.executing
        import gpuenv.matrix.resolve  # noqa: F401 - needed soon

        facts = beginning.finish(rows)
        require_target(facts)
        return Target(asking.result(), choosing), facts, rows


def _installer(scheme: Scheme, means: Means) -> WheelInstaller | None:
    from gpuenv.cli.changing.conda import takes_conda

    return None if takes_conda(scheme, means) else installer_for(scheme, means)


def _way(target: Target, examined: Examined, how: tuple[Wishes, Means], scratch: Path) -> Way:
    """How the plan is made: of conda packages for conda's environments, of wheels for all others."""
    from gpuenv.cli.changing.conda import by_conda, takes_conda
    from gpuenv.cli.changing.transaction import by_wheels
    from gpuenv.install.holdings import take_stock
    from gpuenv.install.preparing import prepare

    scheme, (wishes, means) = target.scheme, how
    if takes_conda(scheme, means):
        _refuse_for_conda(wishes)
        return by_conda(scheme, examined, means)
    wanted, means = _what(examined.resolution, wishes, (means, scheme), scratch)

    def prepared() -> Prepared:
        caller = caller_for(scheme, means, target.choosing.result())
        return prepare(take_stock(scheme), caller, wanted.requirements, wanted.pins)

    return by_wheels(prepared, examined)


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
        from gpuenv.cli.commands.bundle import fitting_bundle

        found = fitting_bundle(wishes.bundle, scratch, scheme)
        return of_lock(found.pins, resolution, wishes.bundle), replace(means, find_links=str(found.wheels))
    if wishes.locked is not None:
        from gpuenv.cli.changing.lockfile import read_lock

        return of_lock(read_lock(wishes.locked, scheme.markers), resolution, wishes.locked), means
    return choice_of(resolution), means


def _leave_guard(scheme: Scheme, path: Path) -> None:
    """A constraint file with the versions that were chosen, and how to use it."""
    from gpuenv.cli.output import write_file
    from gpuenv.install.guard import guard_text
    from gpuenv.install.holdings import take_stock

    there = take_stock(scheme).own.values()
    write_file(path, guard_text({entry.name: entry.release for entry in there}), shared=True)
    announce(f"to keep later installs to this choice: pip install --constraint {path} ..., or PIP_CONSTRAINT={path}")
