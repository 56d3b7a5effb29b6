"""``gpuenv lock``."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuenv.cli import options
from gpuenv.cli.errors import CommandError
from gpuenv.cli.inputs import Subject, get_both
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.cli.installer import Means
    from gpuenv.install.environment import Scheme
    from gpuenv.install.solver import Lock
    from gpuenv.install.target_platform import Elsewhere
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
    from gpuenv.cli.installer import Means, command_error
    from gpuenv.cli.output import check_places, write_result
    from gpuenv.install.errors import InstallError

    check_places([output])
    subject = Subject(python, snapshot, assume or (), no_probe, timeout, driver_root)
    try:
        means = Means(installer.installer, offline, False, install_timeout)
        made = make(subject, matrix, means, as_toml=lock_format is LockFormat.PYLOCK)
    except InstallError as error:
        raise command_error(error, subject.named) from error
    write_result(text_of(made.lock, made.resolution, lock_format), output, shared=True)


@dataclass(frozen=True, slots=True)
class Made:
    """A lock, and what it is for.

    Attributes:
        resolution: what it follows from.
        scheme: the interpreter that was asked: the target's, or gpuenv's own for another machine.
        lock: exact versions with digests.
        elsewhere: the other machine; null where the target is here.
    """

    resolution: Resolution
    scheme: Scheme
    lock: Lock
    elsewhere: Elsewhere | None = None


def make(subject: Subject, matrix: Path | None, means: Means, *, as_toml: bool = False) -> Made:
    """The lock for a target, or for a machine that was recorded or is assumed.

    Args:
        subject: which one.
        matrix: another matrix than the usual one.
        means: what to lock with.
        as_toml: whether a ``pylock.toml`` is wanted.

    Raises:
        InstallError: when there can be none.
        CommandError: when there is no target, or no wheel fits.
    """
    from gpuenv.cli.installer import caller_for, choice_of, interpreter_of, require_target, resolved_for
    from gpuenv.install.environment import ask_scheme, take_stock
    from gpuenv.install.planner import lock_for

    if subject.snapshot is not None or subject.no_probe:
        scheme = ask_scheme(sys.executable, os.environ, time.monotonic() + subject.timeout)
        return _make_elsewhere(subject, matrix, means, scheme)
    interpreter = interpreter_of(subject)
    facts, rows = get_both(subject, matrix)
    require_target(facts)
    scheme = ask_scheme(interpreter, os.environ, time.monotonic() + subject.timeout)
    holdings = take_stock(scheme)
    resolution = resolved_for(facts, rows, holdings)
    requirements = choice_of(resolution)
    caller = caller_for(scheme, means)
    if as_toml and not caller.installer.locks_as_toml:  # told before it works for a minute
        remedy = "install uv (gpuenv lock --installer uv tells why one that is there is not taken), or ask for"
        raise CommandError(ExitCode.USAGE, "pip makes no pylock.toml", f"{remedy} --format requirements")
    return Made(resolution, scheme, lock_for(holdings, caller, requirements))


def _make_elsewhere(subject: Subject, matrix: Path | None, means: Means, scheme: Scheme) -> Made:
    from gpuenv.cli.installer import caller_for, choice_of
    from gpuenv.install.target_platform import elsewhere_of, lock_elsewhere
    from gpuenv.matrix.resolve import resolve

    facts, rows = get_both(subject, matrix)
    there = elsewhere_of(facts)
    resolution = resolve(facts, rows)
    requirements = choice_of(resolution)
    caller = caller_for(scheme, means)  # what is not uv makes none at all, in no form
    chosen = replace(caller.options, python_version=there.python, platform=there.uv_platform)
    lock = lock_elsewhere(replace(caller, options=chosen), facts, requirements)
    return Made(resolution, scheme, lock, there)


def text_of(made: Lock, resolution: Resolution, lock_format: LockFormat) -> str:
    """The lock file, with a comment on its origin; requirements where the installer made no TOML."""
    from gpuenv.install.lockfile import lock_text

    requirements = " ".join(resolution.wheel.requirements) if resolution.wheel else ""
    head = f"# {requirements}, as gpuenv lock resolved it (matrix {resolution.matrix_revision})\n"
    if lock_format is LockFormat.REQUIREMENTS or made.pylock is None:
        return head + lock_text(made.pins)
    return head + made.pylock
