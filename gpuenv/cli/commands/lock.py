"""``gpuenv lock``."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from gpuenv.cli import options
from gpuenv.cli.command_errors import CommandError
from gpuenv.cli.sources import MachineSource, get_both
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.cli.installers import InstallerRequest
    from gpuenv.install.environment import Scheme
    from gpuenv.install.solver import Lock
    from gpuenv.install.target_platform import TargetPlatform


class LockFormat(str, Enum):
    """Lock file formats."""

    PYLOCK = "pylock"
    REQUIREMENTS = "requirements"


def lock(
    python: options.Python = None,
    snapshot: options.SnapshotFile = None,
    assume: options.Assume = None,
    no_probe: options.NoProbe = False,
    matrix: options.MatrixFile = None,
    lock_format: Annotated[
        LockFormat, typer.Option("--format", help="pylock.toml (PEP 751), or requirements with hashes.")
    ] = LockFormat.PYLOCK,
    output: options.OutputFile = None,
    installer: options.WheelInstaller = options.WheelsFrom.AUTO,
    offline: options.NetworkOffline = False,
    timeout: options.Timeout = options.TIMEOUT,
    install_timeout: options.InstallTimeout = options.INSTALL_TIMEOUT,
    driver_root: options.DriverRoot = "/",
) -> None:
    """Write a lock file of the packages that install would install.

    The file has exact versions with hashes, for this target or, with --snapshot or --no-probe, for another machine.

    Exit code: 0 written, 3 no wheel fits, 4 the installer failed, 7 the target cannot be used.
    """
    from gpuenv.cli.install_outcome import command_error
    from gpuenv.cli.installers import InstallerRequest
    from gpuenv.cli.output import check_paths, write_result
    from gpuenv.install.exceptions import InstallError
    from gpuenv.install.lockfile import lock_text

    check_paths([output])
    source = MachineSource(python, snapshot, assume or (), no_probe, timeout, driver_root)
    try:
        request = InstallerRequest(installer.installer, offline, False, install_timeout)
        result = make_lock(source, matrix, request, as_toml=lock_format is LockFormat.PYLOCK)
    except InstallError as error:
        raise command_error(error, source.named_target) from error
    head = f"# {' '.join(result.requirements)}, as gpuenv lock resolved it (matrix {result.matrix_revision})\n"
    as_requirements = lock_format is LockFormat.REQUIREMENTS or result.lock.pylock is None
    text = lock_text(result.lock.pins) if as_requirements else result.lock.pylock
    write_result(f"{head}{text}", output, shared=True)


class LockResult(NamedTuple):
    """A lock, and the environment it is for."""

    requirements: tuple[str, ...]  # of the release that was locked
    matrix_revision: str
    scheme: Scheme  # of the target, or of gpuenv's own Python for another machine
    lock: Lock
    platform: TargetPlatform | None = None  # of another machine; None if the target is on this one


def make_lock(
    source: MachineSource, matrix: Path | None, request: InstallerRequest, *, as_toml: bool = False
) -> LockResult:
    """Locks the requirements of a target, or of a recorded or assumed machine; ``as_toml``: as a ``pylock.toml``.

    Raises:
        InstallError: when there can be none.
        CommandError: when there is no target, or no wheel fits.
    """
    from gpuenv.cli.install_offers import chosen_offers, requirements_of
    from gpuenv.cli.install_target import scheme_of_target
    from gpuenv.cli.installers import installer_run_for
    from gpuenv.cli.progress import announcing_phases
    from gpuenv.install.environment import query_scheme, read_inventory
    from gpuenv.install.plan import Clock
    from gpuenv.install.planner import lock_for
    from gpuenv.install.target_platform import lock_for_platform, platform_of

    if source.snapshot is not None or source.no_probe:
        scheme = query_scheme(sys.executable, os.environ, time.monotonic() + source.timeout)
        snapshot, rows = get_both(source, matrix)
        platform = platform_of(snapshot)
        found = chosen_offers(snapshot, rows)
        installer_run = installer_run_for(scheme, request)  # fails without uv
        chosen = replace(installer_run.options, python_version=platform.python, platform=platform.uv_platform)
        with announcing_phases(Clock(part="plan")):
            lock = lock_for_platform(replace(installer_run, options=chosen), snapshot, found)
        return LockResult(requirements_of(lock.pins, found), rows.revision, scheme, lock, platform)
    snapshot, rows = get_both(source, matrix)
    scheme = scheme_of_target(source, snapshot)
    inventory = read_inventory(scheme)
    found = chosen_offers(snapshot, rows)
    installer_run = installer_run_for(scheme, request)
    if as_toml and not installer_run.installer.locks_as_toml:  # fail before a minute of work
        remedy = "install uv (gpuenv lock --installer uv says why an installed one is rejected), or pass"
        raise CommandError(ExitCode.USAGE, "pip cannot write a pylock.toml", f"{remedy} --format requirements")
    with announcing_phases(Clock(part="plan")):
        lock = lock_for(inventory, installer_run, found)
    return LockResult(requirements_of(lock.pins, found), rows.revision, scheme, lock)
