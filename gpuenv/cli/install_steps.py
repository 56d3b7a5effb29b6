"""Steps shared by install, rollback, lock, bundle and --fix: target, requirements, installer, and outcome."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpuenv.cli.command_errors import CommandError, announce, failure_as_result, usage_errors, with_state
from gpuenv.cli.options import InstallerName
from gpuenv.cli.sources import MachineSource, own_environment, read_at_most
from gpuenv.doctor.fixes.adaptation import add_target_option
from gpuenv.doctor.repair import with_any_numpy
from gpuenv.files import LARGEST_DOCUMENT
from gpuenv.install.backends.base import InstallerOptions, TimeBudget
from gpuenv.install.environment import query_scheme
from gpuenv.install.exceptions import ConsentNeeded, InstallError, NothingFits, TargetUnusable, Unreadable
from gpuenv.install.installer_config import Installer, InstallerRun, select_installer
from gpuenv.install.journal import Store, store_of
from gpuenv.install.lockfile import parse_lock
from gpuenv.install.plan import InstallOutcome, Pin, Result
from gpuenv.install.plan_text import outcome_lines
from gpuenv.install.rollback import recover
from gpuenv.matrix.offers import Offer, Wanted, names_release, offers
from gpuenv.matrix.ranges import same_release
from gpuenv.matrix.resolve import resolve
from gpuenv.model.cupy import is_cupy
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.resolution import CandidateKind
from gpuenv.model.snapshot import Snapshot, SourceState
from gpuenv.model.strings import Lines, error_reason, lines_of
from gpuenv.probe.children import ChildGroup
from gpuenv.probe.interpreters import refuse_foreign
from gpuenv.probe.jupyter_kernels import kernel_interpreter
from gpuenv.probe.target import TargetError, find_interpreter
from gpuenv.probe.transactions import open_transaction

if TYPE_CHECKING:
    from gpuenv.cli.output import Output
    from gpuenv.install.environment import Scheme
    from gpuenv.matrix.tables import Matrix
    from gpuenv.model.resolution import Resolution

CONDAS = (InstallerName.CONDA, InstallerName.MAMBA, InstallerName.MICROMAMBA)
_EXIT_CODES = {
    Unreadable: ExitCode.USAGE,
    TargetUnusable: ExitCode.TARGET_UNUSABLE,
    NothingFits: ExitCode.NOTHING_FITS,
    ConsentNeeded: ExitCode.USAGE,
}


class InstallerRequest(NamedTuple):
    """The options that select and restrict the installer."""

    installer: InstallerName
    offline: bool
    break_system_packages: bool  # allow changes to an externally managed Python
    seconds: float  # time limit of the installer
    find_links: str | None = None  # a folder that is the only source of wheels


def command_error(error: InstallError, python: str | None = None) -> CommandError:
    """The command error of a failed install; ``python`` is the value of ``--python``, for the remedy."""
    remedy = add_target_option(error.remedy, python) if error.remedy else None
    return CommandError(_EXIT_CODES.get(type(error), ExitCode.FAILED), error.message, remedy)


@contextmanager
def outcome_on_failure(out: Output, python: str | None) -> Iterator[list[str]]:
    """Turns an install error into the outcome of the command; yields a list for the recovered installs.

    ``python`` is the value of ``--python``, for the remedy.

    Raises:
        CommandError: with the exit code, and the state of the environment.
    """
    recovered: list[str] = []

    def failure(error: CommandError) -> InstallOutcome:
        changed = isinstance(error.__cause__, InstallError) and not error.__cause__.untouched
        return InstallOutcome(
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
            raise with_environment_state(error, recovered, python) from error


def with_environment_state(
    error: InstallError, recovered: Sequence[str] = (), python: str | None = None
) -> CommandError:
    """The command error of an install error; a failure includes the state of the environment."""
    command = command_error(error, python)
    if command.exit_code in (ExitCode.FAILED, ExitCode.NOTHING_FITS):
        state = "nothing else was changed" if error.untouched and recovered else error.state
        command = CommandError(command.exit_code, with_state(command.message, state), command.remedy)
    return command


def show_outcome(outcome: InstallOutcome, out: Output) -> None:
    """Prints the outcome as the result of a command."""
    out.emit(outcome, lambda: outcome_lines(outcome, verbose=out.verbose))


def target_of(python: str | None, kernel: str | None) -> str | None:
    """The target of ``--python`` or ``--kernel``.

    Raises:
        CommandError: when both are set, or there is no such kernel.
    """
    if kernel is None:
        return python
    if python is not None:
        raise CommandError(ExitCode.USAGE, "--python and --kernel exclude each other")
    with usage_errors(TargetError):
        return kernel_interpreter(kernel, os.environ)


def interpreter_of(source: MachineSource) -> str:
    """The interpreter of a target that an installer works for.

    Raises:
        CommandError: when no Python is found, or the installer of root would run code of another user, or change it.
    """
    with usage_errors(TargetError):
        found = find_interpreter(source.python, os.environ)
    if found is None:
        raise CommandError(ExitCode.TARGET_UNUSABLE, "there is no Python on PATH", "name one with --python")
    with usage_errors(TargetError):
        refuse_foreign(found, os.environ)
    return found


def find_store(interpreter: str, seconds: float) -> Store:
    """The journals next to the interpreter, else those in the root that it reports within ``seconds``.

    Raises:
        TargetUnusable: when it does not answer.
    """
    deadline = time.monotonic() + seconds
    return store_of(interpreter) or Store(Path(query_scheme(interpreter, os.environ, deadline).root))


def refuse_interrupted(interpreter: str, store: Store | None = None) -> None:
    """Refuses to plan on the half-changed state that an interrupted install left.

    Raises:
        TargetUnusable: when an install or a rollback was interrupted.
    """
    store = store or store_of(interpreter)
    try:
        found = open_transaction(store.folder) if store is not None and store.folder.is_dir() else None
    except OSError as error:
        raise TargetUnusable(f"{error.filename}: cannot be read: {error.strerror}") from error
    if store is not None and found is not None:
        raise TargetUnusable(
            f"{store.root}: {found.label} was interrupted, and nothing can be planned before it is undone",
            "Undo it: gpuenv rollback. gpuenv install does so first.",
        )


def recover_interrupted(
    interpreter: str, store: Store | None, *, locked: bool = False, offline: bool = False
) -> tuple[str, ...]:
    """Rolls back interrupted installs, even if the interpreter is gone; returns their numbers.

    ``locked`` is whether the caller holds the lock of the environment.

    Raises:
        InstallError: when one cannot be rolled back.
    """
    store = store or store_of(interpreter)
    if store is None:
        return ()
    with nullcontext() if locked else store.locked():
        found = recover(store, own_environment(), offline=offline)
    for number in found:
        announce(f"the interrupted install {number} was rolled back")
    return found


def require_target(snapshot: Snapshot) -> None:
    """Ends the command if the target does not answer.

    Raises:
        CommandError: with what happened instead.
    """
    target = snapshot.source("target")
    if target.state is not SourceState.ANSWERED:
        raise CommandError(
            ExitCode.TARGET_UNUSABLE,
            f"{snapshot.target.executable.value or 'the target'} cannot be used: {target.detail or target.state.value}",
            "Recreate the environment, or name another one with --python.",
        )


def scheme_of_target(source: MachineSource, snapshot: Snapshot) -> Scheme:
    """The folders of the target that a plan or a lock is for.

    Raises:
        InstallError: when an install was interrupted in it.
        CommandError: when there is no target, or it does not answer.
    """
    interpreter = interpreter_of(source)
    refuse_interrupted(interpreter)
    require_target(snapshot)
    return query_scheme(interpreter, os.environ, time.monotonic() + source.timeout)


def chosen_offers(
    snapshot: Snapshot, rows: Matrix, wanted: Wanted = (), *, any_numpy: bool = False
) -> tuple[Offer, ...]:
    """What may be installed, in order of preference: what is complete comes before what lacks a toolkit.

    Args:
        snapshot: the machine and the target.
        rows: the matrix.
        wanted: what the user restricts CuPy to.
        any_numpy: whether NumPy may change.

    Raises:
        CommandError: when nothing fits; the remedy is another Python if that suffices.
    """
    found = offers(snapshot, rows, wanted)
    if any_numpy:
        found = tuple(dict.fromkeys((*found, *offers(with_any_numpy(snapshot), rows, wanted))))
    if found:
        return tuple(sorted(found, key=lambda offer: not offer.is_complete))
    resolution = resolve(snapshot, rows)
    if wanted and resolution.wheel is not None:
        raise _not_wanted(resolution, wanted)
    changes = resolution.next_better.changes if resolution.next_better else ()
    remedy = "To install for another machine, describe it: --assume driver=580.95.05 --assume gpu=H100"
    if changes and all(change.fact == "target.python" for change in changes):
        environment = f"Create an environment with Python {changes[0].needed}"
        remedy = f"{environment}: uv venv --python 3.12 NAME, then gpuenv install --python NAME."
    message = Lines(("no wheel fits: nothing was changed", *lines_of(resolution.explanation)))
    raise CommandError(ExitCode.NOTHING_FITS, message, remedy)


def _not_wanted(resolution: Resolution, wanted: Wanted) -> CommandError:
    """The error if wheels fit, but none of those that the user restricts CuPy to."""
    names = " ".join(map(str, wanted))
    reasons = (
        f"{entry.candidate.label} needs {entry.needed}, found {entry.found}"
        for entry in resolution.rejected
        if entry.candidate.kind is CandidateKind.WHEEL
        and all(names_release(requirement, entry.candidate.name, entry.candidate.version) for requirement in wanted)
    )
    reason = next(reasons, "the matrix has no such release")
    fitting = resolution.wheel.requirements[0] if resolution.wheel else ""
    return CommandError(ExitCode.NOTHING_FITS, f"no wheel for {names} fits: {reason}", f"This fits: {fitting}")


def requirements_of(pins: Sequence[Pin], found: Sequence[Offer]) -> tuple[str, ...]:
    """The requirements of the offered CuPy that is among these pins."""
    releases = {pin.name: pin.release for pin in pins}
    choices = (choice for offer in found for choice in offer.choices)
    chosen = (choice for choice in choices if same_release(releases.get(choice.distribution, ""), choice.version))
    return next((choice.requirements for choice in chosen), ())


def read_lock(path: Path, markers: Mapping[str, str] | None = None) -> tuple[Pin, ...]:
    """Reads the pins of a ``pylock.toml`` or of requirements with digests.

    ``markers`` are the target's environment markers; None keeps every entry.

    Raises:
        CommandError: with the file and the error in it.
    """
    try:
        return parse_lock(path.name, read_at_most(path, LARGEST_DOCUMENT, "lock file"), markers)
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"{path}: {error_reason(error)}") from error
    except ValueError as error:
        raise CommandError(ExitCode.USAGE, f"{path}: {error_reason(error)}", "Create one: gpuenv lock") from error


def requirements_of_lock(pins: tuple[Pin, ...], resolution: Resolution, path: Path) -> tuple[str, ...]:
    """The requirements of a lock file; announces those that do not fit the machine.

    Raises:
        CommandError: when it contains no CuPy, or several.
    """
    lines = [pin for pin in pins if is_cupy(pin.name)]
    if len(lines) != 1:
        found = ", ".join(pin.name for pin in lines) or "none"
        raise CommandError(ExitCode.USAGE, f"{path}: expected one CuPy, found {found}")
    (cupy,) = lines
    rejections = [
        entry
        for entry in resolution.rejected
        if entry.candidate.name == cupy.name and same_release(entry.candidate.version, cupy.release)
    ]
    for reason in dict.fromkeys(f"needs {entry.needed}, found {entry.found}" for entry in rejections):
        announce(f"{cupy.name} {cupy.release} does not fit this machine: {reason}")
    return tuple(f"{pin.name}=={pin.release}" for pin in pins)


def installer_for(scheme: Scheme, request: InstallerRequest) -> Installer:
    """The installer of wheels for a target.

    Raises:
        InstallError: when there is none.
        CommandError: when it is a conda installer.
    """
    if request.installer in CONDAS:
        message = f"{request.installer.value} installs conda packages, and this needs wheels"
        raise CommandError(ExitCode.USAGE, message, "use uv or pip")
    return select_installer(request.installer.value, scheme, own_environment(), time.monotonic() + request.seconds)


def installer_run_for(scheme: Scheme, request: InstallerRequest, installer: Installer | None = None) -> InstallerRun:
    """The run of an installer of wheels with the user's settings; selects the installer by default.

    Raises:
        InstallError: when there is none.
        CommandError: when it is a conda installer.
    """
    options = InstallerOptions(scheme.executable, request.offline, request.find_links, request.break_system_packages)
    installer = installer or installer_for(scheme, request)
    return InstallerRun(installer, options, own_environment(), TimeBudget(request.seconds), ChildGroup())
