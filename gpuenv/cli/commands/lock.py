"""``gpuenv lock``."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from gpuenv.cli import options
from gpuenv.cli.sources import MachineSource


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
    from gpuenv.cli.install_output import command_error
    from gpuenv.cli.installers import InstallerRequest
    from gpuenv.cli.output import check_paths, write_result
    from gpuenv.cli.solving import make_lock
    from gpuenv.install.exceptions import InstallError
    from gpuenv.install.lockfile import lock_text

    check_paths([output])
    source = MachineSource(python, snapshot, assume or (), no_probe, timeout, driver_root)
    try:
        request = InstallerRequest(installer.installer, offline, install_timeout)
        result = make_lock(source, matrix, request, as_toml=lock_format is LockFormat.PYLOCK)
    except InstallError as error:
        raise command_error(error, source.named_target) from error
    head = f"# {' '.join(result.requirements)}, as gpuenv lock resolved it (matrix {result.matrix_revision})\n"
    as_requirements = lock_format is LockFormat.REQUIREMENTS or result.lock.pylock is None
    text = lock_text(result.lock.pins) if as_requirements else result.lock.pylock
    write_result(f"{head}{text}", output, shared=True)
