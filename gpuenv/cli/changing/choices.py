"""What the commands around installing share: the target, what to install there, with what, and how to show it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpuenv.cli.announce import announce
from gpuenv.cli.errors import CommandError
from gpuenv.cli.inputs import Subject
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.cli.output import Output
    from gpuenv.install.backends.base import Installer as OfWheels
    from gpuenv.install.environment import Scheme
    from gpuenv.install.errors import InstallError
    from gpuenv.install.holdings import Holdings
    from gpuenv.install.journal import Store
    from gpuenv.install.records import Outcome, Pin
    from gpuenv.install.resolving import Caller
    from gpuenv.matrix.records import Matrix
    from gpuenv.model.resolution import Resolution
    from gpuenv.model.snapshot import Snapshot


class InstallerName(str, Enum):
    """What to install with."""

    AUTO = "auto"
    UV = "uv"
    PIP = "pip"
    CONDA = "conda"
    MAMBA = "mamba"
    MICROMAMBA = "micromamba"


CONDAS = (InstallerName.CONDA, InstallerName.MAMBA, InstallerName.MICROMAMBA)


class WheelsFrom(str, Enum):
    """What tells and downloads wheels where nothing is installed."""

    AUTO = "auto"
    UV = "uv"
    PIP = "pip"

    @property
    def installer(self) -> InstallerName:
        """The same where conda's are among them."""
        return InstallerName(self.value)


Installer = Annotated[InstallerName, typer.Option("--installer", help="What to install with.")]
WheelInstaller = Annotated[WheelsFrom, typer.Option("--installer", help="What to ask for the wheels.")]
Kernel = Annotated[
    Optional[str],
    typer.Option(
        "--kernel", metavar="NAME", help="The target: the environment of a Jupyter kernel, by its name or kernelspec."
    ),
]
NetworkOffline = Annotated[
    bool, typer.Option("--offline", help="Use no network: what the cache of the installer holds.")
]
InstallTimeout = Annotated[
    float, typer.Option("--install-timeout", metavar="SECONDS", min=1, help="How long the installer may take.")
]
INSTALL_TIMEOUT = 3600.0  # seconds


@dataclass(frozen=True, slots=True)
class Means:
    """What to install with.

    Attributes:
        installer: uv, pip, or whichever is there.
        offline: no network.
        break_system_packages: an externally managed Python may be changed.
        seconds: how long the installer may take.
        find_links: a folder that is the only source of wheels.
    """

    installer: InstallerName
    offline: bool
    break_system_packages: bool
    seconds: float
    find_links: str | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to install: the resolver's requirements, or the pins of a lock file."""

    requirements: tuple[str, ...]
    pins: tuple[Pin, ...] | None = None


def command_error(error: InstallError, python: str | None = None) -> CommandError:
    """The exit code of what ended an install early, and what to do about it for the target that the caller named."""
    from gpuenv.doctor.fixes.adapt import words_about
    from gpuenv.install.errors import ConsentNeeded, NothingFits, TargetUnusable, Unreadable

    codes = {
        Unreadable: ExitCode.USAGE,
        TargetUnusable: ExitCode.TARGET_UNUSABLE,
        NothingFits: ExitCode.NOTHING_FITS,
        ConsentNeeded: ExitCode.USAGE,
    }
    remedy = words_about(error.remedy, python) if error.remedy else None
    return CommandError(codes.get(type(error), ExitCode.FAILED), error.message, remedy)


def target_of(python: str | None, kernel: str | None) -> str | None:
    """What ``--python`` would say where ``--kernel`` is given.

    Raises:
        CommandError: when both are, or there is no such kernel.
    """
    if kernel is None:
        return python
    if python is not None:
        raise CommandError(ExitCode.USAGE, "--python and --kernel exclude each other")
    from gpuenv.probe.kernels import kernel_interpreter
    from gpuenv.probe.target import TargetError

    try:
        return kernel_interpreter(kernel, os.environ)
    except TargetError as error:
        raise CommandError(ExitCode.USAGE, str(error)) from error


def interpreter_of(subject: Subject) -> str:
    """The target's interpreter.

    Raises:
        CommandError: when there is none.
    """
    from gpuenv.probe.target import TargetError, find_interpreter

    try:
        found = find_interpreter(subject.python, os.environ)
    except TargetError as error:
        raise CommandError(ExitCode.USAGE, str(error)) from error
    if found is None:
        raise CommandError(ExitCode.TARGET_UNUSABLE, "there is no Python on PATH", "name one with --python")
    return found


def put_back_first(
    interpreter: str, store: Store | None, *, dry_run: bool, held: bool = False, offline: bool = False
) -> tuple[str, ...]:
    """Finishes what an interrupted install has left; also where the interpreter has gone.

    Raises:
        InstallError: when it cannot be put back.
    """
    from gpuenv.install.paths import root_with_journals

    if store is None and root_with_journals(interpreter) is None:
        return ()
    from gpuenv.install.recovery import recover, store_of

    store = store or store_of(interpreter)
    if store is None:
        return ()
    if held:
        found = recover(store, os.environ, offline=offline)
    elif dry_run:
        return ()
    else:
        with store.locked():
            found = recover(store, os.environ, offline=offline)
    for number in found:
        announce(f"the interrupted install {number} was put back")
    return found


def require_target(facts: Snapshot) -> None:
    """Ends early where the target does not answer.

    Raises:
        CommandError: with what it did instead.
    """
    from gpuenv.model.snapshot import SourceState

    target = facts.source("target")
    if target.state is not SourceState.ANSWERED:
        raise CommandError(
            ExitCode.TARGET_UNUSABLE,
            f"{facts.target.executable.value or 'the target'}: cannot be used: {target.detail or target.state.value}",
            "Make the environment anew, or name another one with --python.",
        )


def resolved_for(facts: Snapshot, rows: Matrix, holdings: Holdings) -> Resolution:
    """The resolver's answer for a target; the CUDA wheels that nothing there needs bind it to nothing."""
    from gpuenv.install.aims import unneeded
    from gpuenv.install.holdings import as_package
    from gpuenv.matrix.resolve import resolve

    packages = [as_package(entry) for entry in holdings.visible]
    leaving = unneeded(packages, holdings.scheme.markers)
    kept = {name: release for name, release in facts.target.packages.items() if name not in leaving}
    return resolve(replace(facts, target=replace(facts.target, packages=kept)), rows)


def choice_of(resolution: Resolution) -> Wanted:
    """What the resolver has chosen.

    Raises:
        CommandError: when nothing fits.
    """
    if resolution.wheel is None:
        raise CommandError(
            ExitCode.NOTHING_FITS,
            "no wheel fits: nothing was changed\n" + resolution.explanation,
            _way_out(resolution),
        )
    return Wanted(resolution.wheel.requirements)


def _way_out(resolution: Resolution) -> str:
    """Another Python where that is all that is wanting: the machine is not to be assumed away then."""
    changes = resolution.next_better.changes if resolution.next_better else ()
    if changes and all(change.fact == "target.python" for change in changes):
        told = f"Make an environment with Python {changes[0].needed}"
        return f"{told}: uv venv --python 3.12 NAME, then gpuenv install --python NAME."
    return "To install for another machine than this one, say which: --assume driver=580.95.05 --assume gpu=H100"


def of_lock(pins: tuple[Pin, ...], resolution: Resolution, where: Path) -> Wanted:
    """The pins of a lock file; a word where the machine does not like what it names.

    Raises:
        CommandError: when it names no CuPy, or several.
    """
    from gpuenv.matrix.ranges import same_release
    from gpuenv.model.lines import is_cupy

    lines = [pin for pin in pins if is_cupy(pin.name)]
    if len(lines) != 1:
        found = ", ".join(pin.name for pin in lines) or "none"
        raise CommandError(ExitCode.USAGE, f"{where}: expected one CuPy, found {found}")
    against = [
        entry
        for entry in resolution.rejected
        if entry.candidate.name == lines[0].name and same_release(entry.candidate.version, lines[0].release)
    ]
    for reason in dict.fromkeys(f"needs {entry.needed}, found {entry.found}" for entry in against):
        announce(f"{lines[0].name} {lines[0].release} does not fit this machine: {reason}")
    return Wanted(tuple(f"{pin.name}=={pin.release}" for pin in pins), pins)


def installer_for(scheme: Scheme, means: Means) -> OfWheels:
    """The installer of wheels for a target.

    Raises:
        InstallError: when there is none.
        CommandError: when it is one of conda's.
    """
    if means.installer in CONDAS:
        raise CommandError(
            ExitCode.USAGE,
            f"{means.installer.value} handles conda packages, and wheels are wanted here",
            "use uv or pip",
        )
    from gpuenv.install.choose import choose

    return choose(means.installer.value, scheme, os.environ, time.monotonic() + means.seconds)


def caller_for(scheme: Scheme, means: Means, installer: OfWheels | None = None) -> Caller:
    """The installer of wheels, with the caller's own settings; it is chosen where it has not been already.

    Raises:
        InstallError: when there is none.
        CommandError: when it is one of conda's.
    """
    from gpuenv.install.backends.base import Options
    from gpuenv.install.resolving import Caller
    from gpuenv.install.timing import Patience
    from gpuenv.probe.children import ChildGroup

    installer = installer or installer_for(scheme, means)
    chosen = Options(scheme.executable, means.offline, means.find_links, means.break_system_packages)
    return Caller(installer, chosen, dict(os.environ), Patience(means.seconds), ChildGroup())


def show_outcome(outcome: Outcome, out: Output) -> None:
    """The summary."""
    from gpuenv.install.text import outcome_lines

    out.emit(outcome, lambda: outcome_lines(outcome, verbose=out.verbose))
