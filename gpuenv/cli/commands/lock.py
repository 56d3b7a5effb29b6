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
    from gpuenv.cli.install_steps import InstallerRequest
    from gpuenv.install.environment import Scheme
    from gpuenv.install.solver import Lock
    from gpuenv.install.target_platform import TargetPlatform
    from gpuenv.model.resolution import Resolution


class LockFormat(str, Enum):
    """Forms of a lock file."""

    PYLOCK = "pylock"
    REQUIREMENTS = "requirements"


def lock(
    python: options.Python = None,
    snapshot: options.SnapshotFile = None,
    assume: options.Assume = None,
    no_probe: options.NoProbe = False,
    matrix: options.MatrixFile = None,
    lock_format: Annotated[
        LockFormat, typer.Option("--format", help="A pylock.toml (PEP 751), or requirements with hashes.")
    ] = LockFormat.PYLOCK,
    output: options.OutputFile = None,
    installer: options.WheelInstaller = options.WheelsFrom.AUTO,
    offline: options.NetworkOffline = False,
    timeout: options.Timeout = options.TIMEOUT,
    install_timeout: options.InstallTimeout = options.INSTALL_TIMEOUT,
    driver_root: options.DriverRoot = "/",
) -> None:
    """Write what install would install as a lock file.

    Exact versions with hashes, for this target, or with --snapshot or --no-probe for another machine.

    Exit code: 0 written, 3 no wheel fits, 4 the installer failed, 7 the target cannot be used.
    """
    from gpuenv.cli.install_steps import InstallerRequest, command_error
    from gpuenv.cli.output import check_places, write_result
    from gpuenv.install.exceptions import InstallError
    from gpuenv.install.lockfile import lock_text

    check_places([output])
    source = MachineSource(python, snapshot, assume or (), no_probe, timeout, driver_root)
    try:
        request = InstallerRequest(installer.installer, offline, False, install_timeout)
        made = make(source, matrix, request, as_toml=lock_format is LockFormat.PYLOCK)
    except InstallError as error:
        raise command_error(error, source.named) from error
    requirements = " ".join(made.resolution.wheel.requirements) if made.resolution.wheel else ""
    head = f"# {requirements}, as gpuenv lock resolved it (matrix {made.resolution.matrix_revision})\n"
    as_requirements = lock_format is LockFormat.REQUIREMENTS or made.lock.pylock is None
    text = lock_text(made.lock.pins) if as_requirements else made.lock.pylock
    write_result(f"{head}{text}", output, shared=True)


class LockResult(NamedTuple):
    """A lock, and what it is for."""

    resolution: Resolution  # what it follows from
    scheme: Scheme  # the interpreter that was asked: the target's, or gpuenv's own for another machine
    lock: Lock
    elsewhere: TargetPlatform | None = None  # the other machine; None where the target is here


def make(source: MachineSource, matrix: Path | None, request: InstallerRequest, *, as_toml: bool = False) -> LockResult:
    """The lock for a target, or for a machine that was recorded or is assumed; ``as_toml``: as a ``pylock.toml``.

    Raises:
        InstallError: when there can be none.
        CommandError: when there is no target, or no wheel fits.
    """
    from gpuenv.cli.install_steps import (
        chosen_requirements,
        installer_run_for,
        interpreter_of,
        require_target,
        resolved_for,
    )
    from gpuenv.install.environment import query_scheme, read_inventory
    from gpuenv.install.planner import lock_for
    from gpuenv.install.target_platform import lock_for_platform, platform_of
    from gpuenv.matrix.resolve import resolve

    if source.snapshot is not None or source.no_probe:
        scheme = query_scheme(sys.executable, os.environ, time.monotonic() + source.timeout)
        snapshot, rows = get_both(source, matrix)
        there = platform_of(snapshot)
        resolution = resolve(snapshot, rows)
        requirements = chosen_requirements(resolution)
        installer_run = installer_run_for(scheme, request)  # what is not uv makes none at all, in no form
        chosen = replace(installer_run.options, python_version=there.python, platform=there.uv_platform)
        lock = lock_for_platform(replace(installer_run, options=chosen), snapshot, requirements)
        return LockResult(resolution, scheme, lock, there)
    interpreter = interpreter_of(source)
    snapshot, rows = get_both(source, matrix)
    require_target(snapshot)
    scheme = query_scheme(interpreter, os.environ, time.monotonic() + source.timeout)
    inventory = read_inventory(scheme)
    resolution = resolved_for(snapshot, rows, inventory)
    requirements = chosen_requirements(resolution)
    installer_run = installer_run_for(scheme, request)
    if as_toml and not installer_run.installer.locks_as_toml:  # refused before it works for a minute
        remedy = "install uv (gpuenv lock --installer uv tells why one that is there is not taken), or ask for"
        raise CommandError(ExitCode.USAGE, "pip makes no pylock.toml", f"{remedy} --format requirements")
    return LockResult(resolution, scheme, lock_for(inventory, installer_run, requirements))
