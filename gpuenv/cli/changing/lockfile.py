"""Reads the lock files that a command is given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.errors import CommandError
from gpuenv.cli.inputs import read_at_most
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.unread import reason_of

if TYPE_CHECKING:
    from gpuenv.install.records import Pin

_LARGEST = 16 * 1024 * 1024


def read_lock(path: Path, markers: Mapping[str, str] | None = None) -> tuple[Pin, ...]:
    """The pins of a ``pylock.toml`` or of requirements with digests.

    Args:
        path: the file.
        markers: the target's environment markers; None to look at the file alone.

    Raises:
        CommandError: with the file and what is wrong in it.
    """
    from gpuenv.install.locking import parse_lock

    try:
        return parse_lock(path.name, read_at_most(path, _LARGEST, "lock file"), markers)
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"{path}: {reason_of(error)}") from error
    except ValueError as error:
        raise CommandError(ExitCode.USAGE, f"{path}: {reason_of(error)}", "Make one with gpuenv lock.") from error
