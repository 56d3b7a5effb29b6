"""``gpuenv bundle``."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuenv.cli import options
from gpuenv.cli.errors import CommandError, announce
from gpuenv.cli.inputs import MachineSource, matrix_path
from gpuenv.files import is_folder
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import error_reason

if TYPE_CHECKING:
    from gpuenv.cli.commands.lock import Made
    from gpuenv.cli.installer import Means
    from gpuenv.install.bundle import Bundle
    from gpuenv.install.environment import Scheme


def bundle(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="PATH", help="A folder to make, or a file that ends in .tar.")
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
    """Collect what a machine without a network needs to install.

    Wheels, lock and matrix, in one archive.

    For this machine, or with --snapshot or --no-probe for another one.

    Exit code: 0 written, 2 it is there already, 3 no wheel fits, 4 the download failed, 7 the target cannot be used.
    """
    from gpuenv.cli.commands.lock import make
    from gpuenv.cli.installer import Means, command_error
    from gpuenv.install.bundle import pack
    from gpuenv.install.errors import InstallError

    if not is_folder(output.parent):  # before anything is downloaded
        raise CommandError(ExitCode.USAGE, f"{output.parent} is no folder")
    try:
        output.lstat()
        raise CommandError(ExitCode.USAGE, f"{output} is there already", "name another one")
    except FileNotFoundError:
        pass
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"{output}: {error_reason(error)}") from error
    subject = MachineSource(python, snapshot, assume or (), no_probe, timeout, driver_root)
    means = Means(installer.installer, False, False, install_timeout)
    try:
        made = make(subject, matrix, means)
        with tempfile.TemporaryDirectory(prefix=".gpuenv-", dir=output.parent) as scratch:
            folder = Path(scratch) / "bundle"
            _fill(folder, made, means, matrix)
            if output.suffix == ".tar":
                pack(folder, folder.with_suffix(".tar"))
                folder = folder.with_suffix(".tar")
            os.rename(folder, output)  # noqa: PTH104 - whole or not at all, a folder too
    except InstallError as error:
        raise command_error(error, subject.named) from error
    except OSError as error:
        raise CommandError(ExitCode.FAILED, f"{error.filename or output}: {error.strerror or error}") from error
    announce(f"{output}: {len(made.lock.pins)} wheels; install them with: gpuenv install --bundle {output}")


def _fill(folder: Path, made: Made, means: Means, matrix: Path | None) -> None:
    """Wheels, lock, matrix and manifest."""
    from gpuenv import __version__
    from gpuenv.cli.installer import caller_for
    from gpuenv.install.bundle import LOCK, WHEELS, Manifest, download, write_bundle
    from gpuenv.install.lockfile import lock_text

    scheme, there = made.scheme, made.elsewhere
    (folder / WHEELS).mkdir(parents=True)
    (folder / LOCK).write_text(lock_text(made.lock.pins), encoding="utf-8")
    if made.lock.pylock is not None:
        (folder / "pylock.toml").write_text(made.lock.pylock, encoding="utf-8")
    shutil.copyfile(matrix_path(matrix), folder / "matrix.yaml")
    words = there.pip_words if there else ()
    download(caller_for(scheme, means), scheme, (folder / LOCK, folder / WHEELS), announce, words)
    requirements = made.resolution.wheel.requirements if made.resolution.wheel else ()
    python, platform = (there.python, there.platform) if there else (scheme.minor, scheme.platform)
    revision = made.resolution.matrix_revision
    write_bundle(folder, Manifest(requirements, python, platform, __version__, revision, ()))


def fitting_bundle(given: Path, scratch: Path, scheme: Scheme) -> Bundle:
    """A bundle that was looked through and is for this target.

    Raises:
        InstallError: when something in it does not match.
        CommandError: when it is for another Python or platform.
    """
    from gpuenv.install.bundle import open_bundle

    found = open_bundle(given, scratch)
    here = (scheme.minor, scheme.platform)
    if (found.manifest.python, found.manifest.platform) != here:
        raise CommandError(
            ExitCode.NOTHING_FITS,
            f"{given} is for Python {found.manifest.python} on {found.manifest.platform}, "
            f"and the target is Python {here[0]} on {here[1]}",
            "Make one on a machine like this: gpuenv bundle.",
        )
    return found
