"""What the commands around installing share: the target, what to install there and with what, and how they end."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpuenv.cli.errors import CommandError, announce, failure_as_result, usage_errors, with_stand
from gpuenv.cli.inputs import MachineSource, read_at_most
from gpuenv.cli.options import InstallerName
from gpuenv.doctor.fixes.adapt import words_about
from gpuenv.install.backends.base import Options, Patience
from gpuenv.install.environment import Holdings
from gpuenv.install.errors import ConsentNeeded, InstallError, NothingFits, TargetUnusable, Unreadable
from gpuenv.install.installers import Caller, Installer, choose
from gpuenv.install.journal import store_of
from gpuenv.install.lockfile import parse_lock
from gpuenv.install.plan import Outcome, Pin, Result
from gpuenv.install.planner import unneeded
from gpuenv.install.rollback import recover
from gpuenv.install.text import outcome_lines
from gpuenv.matrix.ranges import same_release
from gpuenv.matrix.resolve import resolve
from gpuenv.model.cupy import is_cupy
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.snapshot import Snapshot, SourceState
from gpuenv.model.strings import error_reason
from gpuenv.probe.children import ChildGroup
from gpuenv.probe.kernels import kernel_interpreter
from gpuenv.probe.target import TargetError, find_interpreter

if TYPE_CHECKING:
    from gpuenv.cli.output import Output
    from gpuenv.install.environment import Scheme
    from gpuenv.install.journal import Store
    from gpuenv.matrix.tables import Matrix
    from gpuenv.model.resolution import Resolution

CONDAS = (InstallerName.CONDA, InstallerName.MAMBA, InstallerName.MICROMAMBA)
_LARGEST_LOCK = 16 * 1024 * 1024
_EXIT_CODES = {
    Unreadable: ExitCode.USAGE,
    TargetUnusable: ExitCode.TARGET_UNUSABLE,
    NothingFits: ExitCode.NOTHING_FITS,
    ConsentNeeded: ExitCode.USAGE,
}


class Means(NamedTuple):
    """What to install with."""

    installer: InstallerName
    offline: bool
    break_system_packages: bool  # an externally managed Python may be changed
    seconds: float  # that the installer may take
    find_links: str | None = None  # a folder that is the only source of wheels


def command_error(error: InstallError, python: str | None = None) -> CommandError:
    """The exit code of what ended an install early, and what to do about it for the target that the caller named."""
    remedy = words_about(error.remedy, python) if error.remedy else None
    return CommandError(_EXIT_CODES.get(type(error), ExitCode.FAILED), error.message, remedy)


@contextmanager
def ending(out: Output, python: str | None) -> Iterator[list[str]]:
    """Makes what ends early in here the command's outcome; yields the list of interrupted installs put back first.

    ``python`` is the target as the caller named it, for what is to be run next.

    Raises:
        CommandError: with the exit code of what ended it, and how the environment stands.
    """
    recovered: list[str] = []

    def failure(error: CommandError) -> Outcome:
        changed = isinstance(error.__cause__, InstallError) and not error.__cause__.untouched
        return Outcome(
            status=Result.NOT_RESTORED if changed else Result.FAILED,
            exit_code=error.exit_code,
            message=error.message,
            transaction=None,
            target=None,
            recovered=tuple(recovered),
            remedy=error.remedy,
        )

    with failure_as_result(out, failure):
        try:
            yield recovered
        except InstallError as error:
            raise stood(error, recovered, python) from error


def stood(error: InstallError, recovered: Sequence[str] = (), python: str | None = None) -> CommandError:
    """The error with its exit code; a failure says how the environment stands."""
    ended = command_error(error, python)
    if ended.exit_code in (ExitCode.FAILED, ExitCode.NOTHING_FITS):
        stands = "nothing else was changed" if error.untouched and recovered else error.stands
        ended = CommandError(ended.exit_code, with_stand(ended.message, stands), ended.remedy)
    return ended


def show_outcome(outcome: Outcome, out: Output) -> None:
    """Prints the outcome as the result of a command."""
    out.emit(outcome, lambda: outcome_lines(outcome, verbose=out.verbose))


def target_of(python: str | None, kernel: str | None) -> str | None:
    """The target of ``--python`` or ``--kernel``.

    Raises:
        CommandError: when both are given, or there is no such kernel.
    """
    if kernel is None:
        return python
    if python is not None:
        raise CommandError(ExitCode.USAGE, "--python and --kernel exclude each other")
    with usage_errors(TargetError):
        return kernel_interpreter(kernel, os.environ)


def interpreter_of(subject: MachineSource) -> str:
    """The target's interpreter.

    Raises:
        CommandError: when there is none.
    """
    with usage_errors(TargetError):
        found = find_interpreter(subject.python, os.environ)
    if found is None:
        raise CommandError(ExitCode.TARGET_UNUSABLE, "there is no Python on PATH", "name one with --python")
    return found


def put_back_first(
    interpreter: str, store: Store | None, *, dry_run: bool, held: bool = False, offline: bool = False
) -> tuple[str, ...]:
    """Finishes what an interrupted install has left; also where the interpreter has gone.

    ``held`` says that the environment is locked already.

    Raises:
        InstallError: when it cannot be put back.
    """
    store = store or store_of(interpreter)
    if store is None or (dry_run and not held):
        return ()
    with nullcontext() if held else store.locked():
        found = recover(store, os.environ, offline=offline)
    for number in found:
        announce(f"the interrupted install {number} was put back")
    return found


def require_target(facts: Snapshot) -> None:
    """Ends the command where the target does not answer.

    Raises:
        CommandError: with what it did instead.
    """
    target = facts.source("target")
    if target.state is not SourceState.ANSWERED:
        raise CommandError(
            ExitCode.TARGET_UNUSABLE,
            f"{facts.target.executable.value or 'the target'}: cannot be used: {target.detail or target.state.value}",
            "Make the environment anew, or name another one with --python.",
        )


def resolved_for(facts: Snapshot, rows: Matrix, holdings: Holdings) -> Resolution:
    """The resolver's answer for a target, without regard to the CUDA wheels that nothing there needs."""
    leaving = unneeded(holdings.visible, holdings.scheme.markers)
    kept = {name: release for name, release in facts.target.packages.items() if name not in leaving}
    return resolve(facts._replace(target=facts.target._replace(packages=kept)), rows)


def choice_of(resolution: Resolution) -> tuple[str, ...]:
    """The requirements that the resolver has chosen.

    Raises:
        CommandError: when nothing fits; with another Python as the fix where that is all that is missing.
    """
    if resolution.wheel is not None:
        return resolution.wheel.requirements
    changes = resolution.next_better.changes if resolution.next_better else ()
    remedy = "To install for another machine than this one, say which: --assume driver=580.95.05 --assume gpu=H100"
    if changes and all(change.fact == "target.python" for change in changes):
        environment = f"Make an environment with Python {changes[0].needed}"
        remedy = f"{environment}: uv venv --python 3.12 NAME, then gpuenv install --python NAME."
    message = "no wheel fits: nothing was changed\n" + resolution.explanation
    raise CommandError(ExitCode.NOTHING_FITS, message, remedy)


def read_lock(path: Path, markers: Mapping[str, str] | None = None) -> tuple[Pin, ...]:
    """The pins of a ``pylock.toml`` or of requirements with digests.

    ``markers`` are the target's environment markers; None looks at the file alone.

    Raises:
        CommandError: with the file and what is wrong in it.
    """
    try:
        return parse_lock(path.name, read_at_most(path, _LARGEST_LOCK, "lock file"), markers)
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"{path}: {error_reason(error)}") from error
    except ValueError as error:
        raise CommandError(ExitCode.USAGE, f"{path}: {error_reason(error)}", "Make one with gpuenv lock.") from error


def of_lock(pins: tuple[Pin, ...], resolution: Resolution, path: Path) -> tuple[str, ...]:
    """The requirements of a lock file; announces where they do not fit the machine.

    Raises:
        CommandError: when it names no CuPy, or several.
    """
    lines = [pin for pin in pins if is_cupy(pin.name)]
    if len(lines) != 1:
        found = ", ".join(pin.name for pin in lines) or "none"
        raise CommandError(ExitCode.USAGE, f"{path}: expected one CuPy, found {found}")
    (cupy,) = lines
    against = [
        entry
        for entry in resolution.rejected
        if entry.candidate.name == cupy.name and same_release(entry.candidate.version, cupy.release)
    ]
    for reason in dict.fromkeys(f"needs {entry.needed}, found {entry.found}" for entry in against):
        announce(f"{cupy.name} {cupy.release} does not fit this machine: {reason}")
    return tuple(f"{pin.name}=={pin.release}" for pin in pins)


def installer_for(scheme: Scheme, means: Means) -> Installer:
    """The installer of wheels for a target.

    Raises:
        InstallError: when there is none.
        CommandError: when it is one of conda's.
    """
    if means.installer in CONDAS:
        message = f"{means.installer.value} handles conda packages, and wheels are wanted here"
        raise CommandError(ExitCode.USAGE, message, "use uv or pip")
    return choose(means.installer.value, scheme, os.environ, time.monotonic() + means.seconds)


def caller_for(scheme: Scheme, means: Means, installer: Installer | None = None) -> Caller:
    """The installer of wheels with the caller's own settings; it is chosen here where none is given.

    Raises:
        InstallError: when there is none.
        CommandError: when it is one of conda's.
    """
    options = Options(scheme.executable, means.offline, means.find_links, means.break_system_packages)
    installer = installer or installer_for(scheme, means)
    return Caller(installer, options, dict(os.environ), Patience(means.seconds), ChildGroup())
