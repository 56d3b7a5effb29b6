"""What to install: the offers of the resolver, or the content of a lock file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.command_errors import CommandError, announce
from gpuenv.cli.sources import read_at_most
from gpuenv.doctor.repair import with_any_numpy
from gpuenv.files import LARGEST_DOCUMENT
from gpuenv.install.lockfile import parse_lock
from gpuenv.install.plan import Pin
from gpuenv.matrix.offers import Offer, Wanted, missing_extra, names_release, offers
from gpuenv.matrix.ranges import same_release
from gpuenv.matrix.resolve import resolve
from gpuenv.model.cupy import is_cupy
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.resolution import CandidateKind, CondaChoice
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.strings import Lines, error_reason, lines_of

if TYPE_CHECKING:
    from gpuenv.matrix.tables import Matrix
    from gpuenv.model.resolution import Rejection, Resolution, WheelChoice


def chosen_offers(
    snapshot: Snapshot, matrix: Matrix, wanted: Wanted = (), *, any_numpy: bool | None = None
) -> tuple[Offer, ...]:
    """What may be installed, in order of preference: what is complete comes before what lacks a toolkit.

    ``wanted`` is what the user restricts CuPy to; with ``any_numpy`` NumPy may change: the command's option
    ``--allow-changes``, None without one.

    Raises:
        CommandError: when nothing fits; the remedy is another Python if that suffices.
    """
    fitting = offers(snapshot, matrix, wanted)
    if any_numpy:
        fitting = tuple(dict.fromkeys((*fitting, *offers(with_any_numpy(snapshot), matrix, wanted))))
    if fitting:
        return tuple(sorted(fitting, key=lambda offer: not offer.is_complete))
    resolution = resolve(snapshot, matrix)
    if wanted and resolution.wheel is not None:
        raise _not_wanted(resolution.rejected, wanted, resolution.wheel, matrix)
    changes = resolution.next_better.changes if resolution.next_better else ()
    remedy = "To install for another machine, describe it: --assume driver=580.95.05 --assume gpu=H100"
    if changes and all(change.fact == "target.python" for change in changes):
        environment = f"Create an environment with Python {changes[0].needed}"
        remedy = f"{environment}: uv venv --python 3.12 NAME, then gpuenv install --python NAME."
    elif any_numpy is False and changes and all(change.fact == "target.numpy" for change in changes):
        remedy = "Pass --allow-changes to change NumPy, or install into a separate environment."
    message = Lines(("no wheel fits: nothing was changed", *lines_of(resolution.explanation)))
    raise CommandError(ExitCode.NOTHING_FITS, message, remedy)


def _not_wanted(rejected: Sequence[Rejection], wanted: Wanted, fitting: WheelChoice, matrix: Matrix) -> CommandError:
    """The error if wheels fit, but none of those that the user restricts CuPy to."""
    names = " ".join(map(str, wanted))
    reasons = (
        f"{entry.candidate.label} needs {entry.needed}, found {entry.found}"
        for entry in rejected
        if entry.candidate.kind is CandidateKind.WHEEL
        and all(names_release(requirement, entry.candidate.name, entry.candidate.version) for requirement in wanted)
    )
    reason = missing_extra(wanted, matrix) or next(reasons, "the matrix has no such release")
    fix = f"This fits: {fitting.requirements[0]}"
    return CommandError(ExitCode.NOTHING_FITS, f"no wheel for {names} fits: {reason}", fix)


def chosen_conda_packages(resolution: Resolution) -> CondaChoice:
    """The conda packages that fit best.

    Raises:
        CommandError: when none fit.
    """
    if resolution.conda is None:
        raise CommandError(
            ExitCode.NOTHING_FITS,
            Lines(("no conda package fits: nothing was changed", *lines_of(resolution.explanation))),
            "Wheels may: gpuenv install --installer uv (or pip), in an environment without conda's CUDA.",
        )
    return resolution.conda


def chosen_requirements(pins: Sequence[Pin], offered: Sequence[Offer]) -> tuple[str, ...]:
    """The requirements of the offered CuPy that is among these pins."""
    releases = {pin.name: pin.release for pin in pins}
    choices = (choice for offer in offered for choice in offer.choices)
    chosen = (choice for choice in choices if same_release(releases.get(choice.distribution, ""), choice.version))
    return next((choice.requirements for choice in chosen), ())


def read_lock(path: Path, markers: Mapping[str, str] | None = None) -> tuple[Pin, ...]:
    """Reads the pins of a ``pylock.toml`` or of requirements with digests.

    ``markers`` are the target's environment markers; None keeps every entry.

    Raises:
        CommandError: with the file and the error in it.
    """
    try:
        return parse_lock(path.name, _lock_text(path), markers)
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"{path}: {error_reason(error)}") from error
    except ValueError as error:
        raise CommandError(ExitCode.USAGE, f"{path}: {error_reason(error)}", "Create one: gpuenv lock") from error


@cache
def _lock_text(path: Path) -> str:
    """The text of a lock file; a pipe can be read only once."""
    return read_at_most(path, LARGEST_DOCUMENT, "lock file")


def lock_requirements(pins: tuple[Pin, ...], resolution: Resolution, path: Path) -> tuple[str, ...]:
    """The requirements of a lock file; announces those that do not fit the machine.

    Raises:
        CommandError: when it contains no CuPy, or several.
    """
    cupy_pins = [pin for pin in pins if is_cupy(pin.name)]
    if len(cupy_pins) != 1:
        found = ", ".join(pin.name for pin in cupy_pins) or "none"
        raise CommandError(ExitCode.USAGE, f"{path}: expected one CuPy, found {found}")
    (cupy,) = cupy_pins
    rejections = [
        entry
        for entry in resolution.rejected
        if entry.candidate.name == cupy.name and same_release(entry.candidate.version, cupy.release)
    ]
    for reason in dict.fromkeys(f"needs {entry.needed}, found {entry.found}" for entry in rejections):
        announce(f"{cupy.name} {cupy.release} does not fit this machine: {reason}")
    return tuple(f"{pin.name}=={pin.release}" for pin in pins)
