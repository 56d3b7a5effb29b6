"""``gpuenv bundle``."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuenv.cli import options
from gpuenv.cli.command_errors import CommandError, announce, progress
from gpuenv.cli.sources import MachineSource, matrix_path
from gpuenv.files import is_folder
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import error_reason, format_size

if TYPE_CHECKING:
    from gpuenv.cli.installers import InstallerRequest
    from gpuenv.cli.solving import LockResult


def bundle(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="PATH", help="Folder to create, or a file that ends in .tar.")
    ],
    python: options.Python = None,
    snapshot: options.SnapshotFile = None,
    assume: options.Assume = None,
    no_probe: options.NoProbe = False,
    matrix: options.MatrixFile = None,
    installer: options.WheelInstaller = options.WheelsFrom.AUTO,
    timeout: options.Timeout = options.TIMEOUT,
    install_timeout: options.InstallTimeout = options.INSTALL_TIMEOUT,
    driver_root: options.DriverRoot = "/",
) -> None:
    """Collect everything that an offline install needs.

    Writes an archive with the wheels, the lock file and the matrix, for this machine or, with --snapshot or --no-probe,
    for another one.

    Exit code: 0 written, 2 the file exists, 3 no wheel fits, 4 the download failed, 7 the target cannot be used.
    """
    from gpuenv.cli.install_output import command_error
    from gpuenv.cli.installers import InstallerRequest
    from gpuenv.cli.solving import make_lock
    from gpuenv.install.bundle import pack
    from gpuenv.install.exceptions import InstallError

    if not is_folder(output.parent):  # before anything is downloaded
        raise CommandError(ExitCode.USAGE, f"{output.parent} is not a folder")
    try:
        output.lstat()
        raise CommandError(ExitCode.USAGE, f"{output} already exists", "name another one")
    except FileNotFoundError:
        pass
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"{output}: {error_reason(error)}") from error
    source = MachineSource(python, snapshot, assume or (), no_probe, timeout, driver_root)
    request = InstallerRequest(installer.installer, offline=False, seconds=install_timeout)
    try:
        result = make_lock(source, matrix, request)
        with tempfile.TemporaryDirectory(prefix=".gpuenv-", dir=output.parent) as scratch:
            folder = Path(scratch) / "bundle"
            size = _fill(folder, result, request, matrix)
            if output.suffix == ".tar":
                pack(folder, folder.with_suffix(".tar"))
                folder = folder.with_suffix(".tar")
            os.rename(folder, output)  # noqa: PTH104 - whole or not at all, a folder too
    except InstallError as error:
        raise command_error(error, source.named_target) from error
    except OSError as error:
        raise CommandError(ExitCode.FAILED, f"{error.filename or output}: {error.strerror or error}") from error
    wheels = f"{len(result.lock.pins)} wheels, {format_size(size)}"
    announce(f"{output}: {wheels}; install them with: gpuenv install --bundle {shlex.quote(str(output))}")


def _fill(folder: Path, result: LockResult, request: InstallerRequest, matrix: Path | None) -> int:
    """Writes wheels, lock, matrix and manifest; returns the size of the wheels."""
    from gpuenv import __version__
    from gpuenv.cli.install_output import announcing_phases
    from gpuenv.cli.installers import installer_run_for
    from gpuenv.install.bundle import LOCK, WHEELS, BundleManifest, download, write_bundle
    from gpuenv.install.lockfile import lock_text
    from gpuenv.install.plan import Clock

    scheme, platform = result.scheme, result.platform
    (folder / WHEELS).mkdir(parents=True)
    (folder / LOCK).write_text(lock_text(result.lock.pins), encoding="utf-8")
    if result.lock.pylock is not None:
        (folder / "pylock.toml").write_text(result.lock.pylock, encoding="utf-8")
    shutil.copyfile(matrix_path(matrix), folder / "matrix.yaml")
    options = platform.pip_options if platform else ()
    with announcing_phases(Clock(part="download and unpack")):
        download(installer_run_for(scheme, request), scheme, (folder / LOCK, folder / WHEELS), progress, options)
    python, system = (platform.python, platform.platform) if platform else (scheme.minor, scheme.platform)
    manifest = BundleManifest(result.requirements, python, system, __version__, result.matrix_revision, ())
    write_bundle(folder, manifest)
    return sum(path.stat().st_size for path in (folder / WHEELS).iterdir())
