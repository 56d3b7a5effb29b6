"""``gpuenv install``."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.command_errors import CommandError, announce, usage_errors
from gpuenv.cli.sources import MachineSource, get_matrix, probing
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from concurrent.futures import Future

    from gpuenv.cli.environment_change import PlanFactory
    from gpuenv.cli.install_plans import ExaminedMachine
    from gpuenv.cli.installers import InstallerRequest
    from gpuenv.cli.output import Output
    from gpuenv.install.environment import Scheme
    from gpuenv.install.installer_config import Installer
    from gpuenv.install.planner import PreparedInstall
    from gpuenv.matrix.offers import Wanted
    from gpuenv.matrix.tables import Matrix
    from gpuenv.model.snapshot import Snapshot


class InstallOptions(NamedTuple):
    """The arguments and options of ``gpuenv install``."""

    requirement: Annotated[
        Optional[list[str]],
        typer.Argument(
            metavar="[REQUIREMENT]...",
            help="Restrict CuPy: 'cupy-cuda12x<14', 'cupy==13.6.0'. By default, the best that fits.",
            show_default=False,
        ),
    ] = None
    python: options.Python = None
    kernel: options.Kernel = None
    assume: options.Assume = None
    locked: Annotated[
        Optional[Path],
        typer.Option("--locked", metavar="FILE", help="Install exactly what a lock file lists (see gpuenv lock)."),
    ] = None
    bundle: Annotated[
        Optional[Path],
        typer.Option("--bundle", metavar="FILE", help="Install from a bundle, offline (see gpuenv bundle)."),
    ] = None
    guard: Annotated[
        Optional[Path],
        typer.Option("--guard", metavar="FILE", help="Write a constraint file that pins CuPy for later installs."),
    ] = None
    dry_run: options.DryRun = False
    yes: options.Yes = False
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Allow version changes of packages other than CuPy's.")
    ] = False
    installer: options.Installer = options.InstallerName.AUTO
    break_system_packages: Annotated[
        bool, typer.Option("--break-system-packages", help="Allow changes to an externally managed Python.")
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

    Shows the plan, asks, installs, and verifies the result. If anything fails, restores the former state.

    Exit code: 0 installed or nothing to do, 2 consent is missing, 3 no wheel fits, 4 failed and the former state was
    restored, 7 the target cannot be used.
    """
    from gpuenv.cli.install_offers import read_lock
    from gpuenv.cli.install_outcome import outcome_on_failure
    from gpuenv.cli.install_target import target_of
    from gpuenv.cli.installers import InstallerRequest
    from gpuenv.cli.output import Output, check_paths
    from gpuenv.matrix.offers import parse_wanted

    check_paths([opts.output, opts.guard])
    with usage_errors(ValueError):
        wanted = tuple(map(parse_wanted, opts.requirement or ()))
    if wanted and (opts.locked or opts.bundle):
        raise CommandError(ExitCode.USAGE, "a REQUIREMENT and --locked or --bundle exclude each other")
    python = target_of(opts.python, opts.kernel)
    source = MachineSource(python, None, opts.assume or (), False, opts.timeout, opts.driver_root)
    if opts.locked is not None and opts.bundle is not None:
        raise CommandError(ExitCode.USAGE, "--locked and --bundle exclude each other: a bundle has its own lock")
    offline = opts.offline or opts.bundle is not None
    request = InstallerRequest(opts.installer, offline, opts.break_system_packages, opts.install_timeout)
    as_json = opts.output_format is options.Format.JSON
    out = Output(opts.output, as_json, not opts.no_color, opts.redact, opts.verbose)
    with outcome_on_failure(out, source.named_target) as recovered:
        if opts.locked is not None:
            read_lock(opts.locked)  # report errors in it before probing the target
        code = _install(opts, wanted, source, request, out, recovered)
    raise typer.Exit(code)


def _install(
    opts: InstallOptions,
    wanted: Wanted,
    source: MachineSource,
    request: InstallerRequest,
    out: Output,
    recovered: list[str],
) -> int:
    """Returns the exit code; appends the interrupted installs that were rolled back first to ``recovered``."""
    import tempfile

    from gpuenv.cli.install_outcome import show_outcome
    from gpuenv.cli.install_target import interpreter_of, recover_interrupted, refuse_interrupted
    from gpuenv.install.plan import Clock

    clock = Clock(time.monotonic())
    interpreter = interpreter_of(source)
    if opts.dry_run:
        refuse_interrupted(interpreter)
    else:
        recovered += recover_interrupted(interpreter, None, offline=request.offline)
    clock.begin("examination")
    target, snapshot, rows = _examination(interpreter, source, opts.matrix, request)
    clock.begin("resolution")
    from gpuenv.cli.environment_change import ConsentOptions, transact
    from gpuenv.cli.install_plans import ExaminedMachine
    from gpuenv.install.plan import Result
    from gpuenv.matrix.resolve import resolve

    scheme = target.scheme
    examined = ExaminedMachine(source, snapshot, rows, resolve(snapshot, rows))
    with tempfile.TemporaryDirectory(prefix="gpuenv-") as scratch:
        plan_factory = _plan_factory(target, examined, opts, wanted, request, Path(scratch))
        consent = ConsentOptions(out, opts.yes, opts.dry_run, opts.allow_changes, request.offline)
        done = transact(interpreter, scheme, plan_factory, consent, clock)
    if done is None:
        return ExitCode.OK
    if done.status in (Result.UNCHANGED, Result.INSTALLED) and opts.guard is not None:
        _write_guard(scheme, opts.guard)
    show_outcome(replace(done, recovered=(*recovered, *done.recovered)), out)
    return done.exit_code


class InstallTarget(NamedTuple):
    """The target's folders, and its installer of wheels, which is selected while the machine is probed."""

    scheme: Scheme
    installer_future: Future[Installer | None]


def _examination(
    interpreter: str, source: MachineSource, matrix: Path | None, request: InstallerRequest
) -> tuple[InstallTarget, Snapshot, Matrix]:
    """Probes the machine and the target, and imports modules that are needed later meanwhile.

    Raises:
        InstallError: when the target may not be installed into.
        CommandError: when it does not answer, or there is no matrix.
    """
    from concurrent.futures import ThreadPoolExecutor

    from gpuenv.cli.install_target import require_target
    from gpuenv.cli.installers import installer_for
    from gpuenv.probe.children import ChildGroup

    # The children first: they are forked before any thread starts. An interrupt waits for none of them.
    with ThreadPoolExecutor(1) as pool, closing(ChildGroup()) as group, probing(source) as finish:
        from gpuenv.cli.install_target import changeable_scheme
        from gpuenv.cli.installers import takes_conda

        def choose() -> Installer | None:
            scheme = scheme_future.result()
            return None if takes_conda(scheme, request) else installer_for(scheme, request)

        scheme_future = pool.submit(changeable_scheme, interpreter, source, request, group)
        installer_future = pool.submit(choose)
        rows = get_matrix(matrix)
        snapshot = finish(rows)
        require_target(snapshot)
        return InstallTarget(scheme_future.result(), installer_future), snapshot, rows


def _plan_factory(
    target: InstallTarget,
    examined: ExaminedMachine,
    opts: InstallOptions,
    wanted: Wanted,
    request: InstallerRequest,
    scratch: Path,
) -> PlanFactory:
    """How to make the plan: from conda packages for conda environments, from wheels for all others.

    The wheels are those of the resolver, of a lock file, or of a bundle, which is unpacked to ``scratch``.
    """
    from gpuenv.cli.install_offers import chosen_offers, read_lock, requirements_of_lock
    from gpuenv.cli.install_plans import by_conda, by_wheels, prepare_wheels
    from gpuenv.cli.installers import takes_conda
    from gpuenv.matrix.offers import Offer

    scheme = target.scheme
    if takes_conda(scheme, request):
        given = {"--locked": opts.locked, "--bundle": opts.bundle, "--guard": opts.guard, "a REQUIREMENT": wanted}
        for option, value in given.items():
            if value:
                raise CommandError(
                    ExitCode.USAGE,
                    f"{option} is for wheels, and conda packages would be installed into this environment",
                    "add --installer uv (or pip) to install wheels; conda's own guard is conda-meta/pinned",
                )
        return by_conda(scheme, examined, request)
    pins = None
    if opts.bundle is not None:
        from gpuenv.cli.commands.bundle import fitting_bundle

        content = fitting_bundle(opts.bundle, scratch, scheme)
        pins, request = content.pins, request._replace(find_links=str(content.wheels))
    elif opts.locked is not None:
        pins = read_lock(opts.locked, scheme.markers)
    lock = opts.bundle or opts.locked
    if pins is not None and lock is not None:
        found: tuple[Offer, ...] = (Offer(requirements_of_lock(pins, examined.resolution, lock)),)
    else:
        found = chosen_offers(examined.snapshot, examined.matrix, wanted, any_numpy=opts.allow_changes)

    def prepared() -> PreparedInstall:
        return prepare_wheels(scheme, request, found, pins, target.installer_future.result())

    return by_wheels(prepared, examined)


def _write_guard(scheme: Scheme, path: Path) -> None:
    """Writes a constraint file with the installed versions, and announces how to use it."""
    from gpuenv.cli.output import write_file
    from gpuenv.install.environment import read_inventory
    from gpuenv.install.lockfile import guard_text

    installed = read_inventory(scheme).own.values()
    write_file(path, guard_text({entry.name: entry.release for entry in installed}), shared=True)
    announce(f"to keep later installs to this choice: pip install --constraint {path} ..., or PIP_CONSTRAINT={path}")
