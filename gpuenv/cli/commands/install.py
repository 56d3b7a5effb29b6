"""``gpuenv install``."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.errors import CommandError, announce
from gpuenv.cli.inputs import MachineSource, get_matrix, probing
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from concurrent.futures import Future

    from gpuenv.cli.installer import Means
    from gpuenv.cli.output import Output
    from gpuenv.cli.transaction import Examined, Way
    from gpuenv.install.environment import Scheme
    from gpuenv.install.installers import Installer
    from gpuenv.install.planner import Prepared
    from gpuenv.matrix.tables import Matrix
    from gpuenv.model.snapshot import Snapshot


class InstallOptions(NamedTuple):
    """The options of ``gpuenv install``."""

    python: options.Python = None
    kernel: options.Kernel = None
    assume: options.Assume = None
    locked: Annotated[
        Optional[Path],
        typer.Option("--locked", metavar="FILE", help="Install exactly what a lock file names (see gpuenv lock)."),
    ] = None
    bundle: Annotated[
        Optional[Path],
        typer.Option("--bundle", metavar="FILE", help="Install from a bundle, without a network (see gpuenv bundle)."),
    ] = None
    guard: Annotated[
        Optional[Path],
        typer.Option(
            "--guard", metavar="FILE", help="Leave a constraint file that keeps later installs to the choice."
        ),
    ] = None
    dry_run: options.DryRun = False
    yes: options.Yes = False
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Packages that are not CuPy's may change their version.")
    ] = False
    installer: options.Installer = options.InstallerName.AUTO
    break_system_packages: Annotated[
        bool, typer.Option("--break-system-packages", help="Change even a Python that the system manages.")
    ] = False
    matrix: options.MatrixFile = None
    output_format: options.OutputFormat = options.Format.TEXT
    output: options.OutputFile = None
    offline: options.NetworkOffline = False
    no_color: options.NoColor = False
    verbose: options.Verbose = False
    timeout: options.Timeout = options.TIMEOUT
    install_timeout: options.InstallTimeout = options.INSTALL_TIMEOUT
    redact: options.Redact = True
    driver_root: options.DriverRoot = "/"


@options.takes(InstallOptions)
def install(opts: InstallOptions) -> None:
    """Install the CuPy that fits, as one transaction.

    The plan is shown, the new state proven and kept, or the former one put back.

    Exit code: 0 installed or nothing to do, 2 consent is missing, 3 no wheel fits, 4 failed and the former state is
    back, 7 the target cannot be used.
    """
    from gpuenv.cli.installer import Means, ending, read_lock, target_of
    from gpuenv.cli.output import Output, check_places

    check_places([opts.output, opts.guard])
    python = target_of(opts.python, opts.kernel)
    subject = MachineSource(python, None, opts.assume or (), False, opts.timeout, opts.driver_root)
    if opts.locked is not None and opts.bundle is not None:
        raise CommandError(ExitCode.USAGE, "--locked and --bundle exclude each other: a bundle has its own lock")
    offline = opts.offline or opts.bundle is not None
    means = Means(opts.installer, offline, opts.break_system_packages, opts.install_timeout)
    as_json = opts.output_format is options.Format.JSON
    out = Output(opts.output, as_json, not opts.no_color, opts.redact, opts.verbose)
    with ending(out, subject.named) as recovered:
        if opts.locked is not None:
            read_lock(opts.locked)  # what is wrong in it is told before the target is asked
        code = _install(opts, subject, means, out, recovered)
    raise typer.Exit(code)


def _install(opts: InstallOptions, subject: MachineSource, means: Means, out: Output, recovered: list[str]) -> int:
    """Returns the exit code, and notes the interrupted installs that were put back first."""
    import tempfile

    from gpuenv.cli.installer import interpreter_of, put_back_first, resolved_for, show_outcome
    from gpuenv.install.plan import Clock

    clock = Clock(time.monotonic())
    interpreter = interpreter_of(subject)
    recovered += put_back_first(interpreter, None, dry_run=opts.dry_run, offline=means.offline)
    clock.begin("examination")
    target, facts, rows = _examination(interpreter, subject, opts.matrix, means)
    clock.begin("resolution")
    from gpuenv.cli.transaction import Examined, Terms, transact
    from gpuenv.install.environment import take_stock
    from gpuenv.install.plan import Result

    scheme = target.scheme
    examined = Examined(subject, facts, rows, resolved_for(facts, rows, take_stock(scheme)))
    with tempfile.TemporaryDirectory(prefix="gpuenv-") as scratch:
        way = _way(target, examined, opts, means, Path(scratch))
        terms = Terms(out, opts.yes, opts.dry_run, opts.allow_changes, means.offline)
        done = transact(interpreter, scheme, way, terms, clock)
    if done is None:
        return ExitCode.OK
    if done.status in (Result.UNCHANGED, Result.INSTALLED) and opts.guard is not None:
        _leave_guard(scheme, opts.guard)
    show_outcome(replace(done, recovered=(*recovered, *done.recovered)), out)
    return done.exit_code


class Target(NamedTuple):
    """The target's folders, and the installer of wheels for it, which is chosen while the machine is probed."""

    scheme: Scheme
    choosing: Future[Installer | None]


def _examination(
    interpreter: str, subject: MachineSource, matrix: Path | None, means: Means
) -> tuple[Target, Snapshot, Matrix]:
    """Probes the machine and the target; what is needed later is imported while they answer.

    Raises:
        InstallError: when the target may not be installed into.
        CommandError: when it does not answer, or there is no matrix.
    """
    from concurrent.futures import ThreadPoolExecutor

    from gpuenv.cli.installer import installer_for, require_target
    from gpuenv.probe.children import ChildGroup

    # The children first: forks can be made from a single thread only. Whoever is interrupted waits for none of them.
    with ThreadPoolExecutor(1) as pool, closing(ChildGroup()) as group, probing(subject) as finish:
        from gpuenv.cli.transaction import takes_conda, target_scheme

        def choose() -> Installer | None:
            scheme = asking.result()
            return None if takes_conda(scheme, means) else installer_for(scheme, means)

        asking = pool.submit(target_scheme, interpreter, subject, means, group)
        choosing = pool.submit(choose)
        rows = get_matrix(matrix)
        facts = finish(rows)
        require_target(facts)
        return Target(asking.result(), choosing), facts, rows


def _way(target: Target, examined: Examined, opts: InstallOptions, means: Means, scratch: Path) -> Way:
    """How the plan is made: of conda packages for conda's environments, of wheels for all others.

    The wheels are those that the resolver chose, or those of a lock file or of a bundle, which is unpacked to
    ``scratch``.
    """
    from gpuenv.cli.installer import caller_for, choice_of, of_lock, read_lock
    from gpuenv.cli.transaction import by_conda, by_wheels, takes_conda
    from gpuenv.install.environment import take_stock
    from gpuenv.install.planner import prepare

    scheme = target.scheme
    if takes_conda(scheme, means):
        for option, value in (("--locked", opts.locked), ("--bundle", opts.bundle), ("--guard", opts.guard)):
            if value is not None:
                raise CommandError(
                    ExitCode.USAGE,
                    f"{option} is for wheels, and conda packages would be installed into this environment",
                    "add --installer uv (or pip) to install wheels; conda's own guard is conda-meta/pinned",
                )
        return by_conda(scheme, examined, means)
    pins = None
    if opts.bundle is not None:
        from gpuenv.cli.commands.bundle import fitting_bundle

        found = fitting_bundle(opts.bundle, scratch, scheme)
        pins, means = found.pins, means._replace(find_links=str(found.wheels))
    elif opts.locked is not None:
        pins = read_lock(opts.locked, scheme.markers)
    lock = opts.bundle or opts.locked
    if pins is not None and lock is not None:
        requirements = of_lock(pins, examined.resolution, lock)
    else:
        requirements = choice_of(examined.resolution)

    def prepared() -> Prepared:
        caller = caller_for(scheme, means, target.choosing.result())
        return prepare(take_stock(scheme), caller, requirements, pins)

    return by_wheels(prepared, examined)


def _leave_guard(scheme: Scheme, path: Path) -> None:
    """Writes a constraint file with the versions that were chosen, and announces how to use it."""
    from gpuenv.cli.output import write_file
    from gpuenv.install.environment import take_stock
    from gpuenv.install.lockfile import guard_text

    there = take_stock(scheme).own.values()
    write_file(path, guard_text({entry.name: entry.release for entry in there}), shared=True)
    announce(f"to keep later installs to this choice: pip install --constraint {path} ..., or PIP_CONSTRAINT={path}")
