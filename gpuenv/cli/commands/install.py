"""``gpuenv install``."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.command_errors import CommandError, announce, usage_errors, working_folder
from gpuenv.cli.sources import MachineSource
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
    from gpuenv.cli.install_output import outcome_on_failure
    from gpuenv.cli.install_target import select_target
    from gpuenv.cli.installers import InstallerRequest
    from gpuenv.cli.output import Output, check_paths
    from gpuenv.matrix.offers import parse_wanted

    working_folder("uv and pip need one: change to a folder that exists")
    check_paths([opts.output, opts.guard])
    with usage_errors(ValueError):
        wanted = tuple(map(parse_wanted, opts.requirement or ()))
    if wanted and (opts.locked or opts.bundle):
        raise CommandError(ExitCode.USAGE, "a REQUIREMENT and --locked or --bundle exclude each other")
    python = select_target(opts.python, opts.kernel)
    source = MachineSource(python, assume=opts.assume or (), timeout=opts.timeout, driver_root=opts.driver_root)
    if opts.locked is not None and opts.bundle is not None:
        raise CommandError(ExitCode.USAGE, "--locked and --bundle exclude each other: a bundle has its own lock")
    offline = opts.offline or opts.bundle is not None
    request = InstallerRequest(opts.installer, offline, opts.install_timeout, opts.break_system_packages)
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

    from gpuenv.cli.install_output import show_outcome
    from gpuenv.cli.install_target import examine_target, recover_interrupted, refuse_interrupted, require_interpreter
    from gpuenv.install.journal import Store, store_of
    from gpuenv.install.plan import Clock

    clock = Clock(time.monotonic())
    interpreter = require_interpreter(source)
    if opts.dry_run:
        refuse_interrupted(store_of(interpreter))
    else:
        recovered += recover_interrupted(store_of(interpreter), offline=request.offline)
    clock.begin("examination")
    scheme, chosen_installer, snapshot, matrix = examine_target(interpreter, source, opts.matrix, request)
    clock.begin("resolution")
    from gpuenv.cli.environment_change import ConsentOptions, dry_run_plan, show_plan, transact
    from gpuenv.cli.install_plans import ExaminedMachine
    from gpuenv.install.plan import Result
    from gpuenv.matrix.resolve import resolve

    examined = ExaminedMachine(source, snapshot, matrix, resolve(snapshot, matrix))
    with tempfile.TemporaryDirectory(prefix="gpuenv-") as scratch:
        plan_factory = _plan_factory(scheme, chosen_installer, examined, opts, wanted, request, Path(scratch))
        if opts.dry_run:
            refuse_interrupted(Store(Path(scheme.root)))
            show_plan(dry_run_plan(plan_factory, clock), out)
            return ExitCode.OK
        consent = ConsentOptions(out, opts.yes, opts.allow_changes, request.offline)
        done = transact(scheme, plan_factory, consent, clock)
    try:
        show_outcome(replace(done, recovered=(*recovered, *done.recovered)), out)
    finally:
        if done.status in (Result.UNCHANGED, Result.INSTALLED) and opts.guard is not None:
            _write_guard(scheme, opts.guard)
    return done.exit_code


def _plan_factory(
    scheme: Scheme,
    chosen_installer: Future[Installer | None],
    examined: ExaminedMachine,
    opts: InstallOptions,
    wanted: Wanted,
    request: InstallerRequest,
    scratch: Path,
) -> PlanFactory:
    """How to make the plan: from conda packages for conda environments, from wheels for all others.

    The wheels are those of the resolver, of a lock file, or of a bundle, which is unpacked to ``scratch``.
    """
    from gpuenv.cli.install_offers import chosen_offers, lock_requirements, read_lock
    from gpuenv.cli.install_plans import by_conda, by_wheels, prepare_wheels
    from gpuenv.cli.installers import takes_conda
    from gpuenv.matrix.offers import Offer

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
        from gpuenv.install.bundle import open_bundle_for

        content = open_bundle_for(scheme, opts.bundle, scratch)
        pins, request = content.pins, request._replace(find_links=str(content.wheels))
    elif opts.locked is not None:
        pins = read_lock(opts.locked, scheme.markers)
    lock = opts.bundle or opts.locked
    if pins is not None and lock is not None:
        offers: tuple[Offer, ...] = (Offer(lock_requirements(pins, examined.resolution, lock)),)
    else:
        offers = chosen_offers(examined.snapshot, examined.matrix, wanted, any_numpy=opts.allow_changes)

    def prepared() -> PreparedInstall:
        return prepare_wheels(scheme, request, offers, pins, chosen_installer.result())

    return by_wheels(prepared, examined)


def _write_guard(scheme: Scheme, path: Path) -> None:
    """Writes a constraint file with the installed versions, and announces how to use it, or why it is missing."""
    from gpuenv.cli.output import write_file
    from gpuenv.install.environment import read_inventory
    from gpuenv.install.exceptions import InstallError
    from gpuenv.install.lockfile import guard_text

    try:
        installed = read_inventory(scheme).own.values()
        write_file(path, guard_text({entry.name: entry.release for entry in installed}), shared=True)
    except (CommandError, InstallError) as error:
        announce(f"--guard: {error.message}")
        return
    file = shlex.quote(str(path.absolute()))
    variable = f", or PIP_CONSTRAINT={file}" if len(file.split()) == 1 else ""  # spaces separate several files there
    announce(f"to keep later installs to this choice: pip install --constraint {file} ...{variable}")
