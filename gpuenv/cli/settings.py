"""What the nearest configuration file says, for the commands that heed it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.clock import today
from gpuenv.cli.errors import CommandError, announce
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.model.allowance import Allowance
    from gpuenv.preflight.config_file import Config


def read_settings(path: Path | None, *, no_config: bool) -> Config:
    """What the configuration file says that was named, or is the nearest.

    Raises:
        CommandError: when it cannot be read or understood, with every fault.
    """
    from gpuenv.preflight.config_file import Config, ConfigError, find_config

    if no_config:
        if path is not None:
            raise CommandError(ExitCode.USAGE, "--config and --no-config exclude each other")
        return Config()
    try:
        here = Path.cwd()
        found = path or find_config(here)
        if found is None:
            return Config()
        from gpuenv.preflight.config import load_config

        shown = str(found) if path is not None or not found.is_relative_to(here) else str(found.relative_to(here))
        return load_config(found, shown)
    except ConfigError as error:
        remedy = None if error.unread else "gpuenv preflight --list-requirements shows the grammar"
        raise CommandError(ExitCode.USAGE, str(error), remedy) from error
    except OSError as error:  # the working folder is gone
        remedy = "--no-config looks for no configuration file"
        raise CommandError(ExitCode.USAGE, f"the working folder: {error.strerror or error}", remedy) from error


def allowed(settings: Config) -> tuple[Allowance, ...]:
    """The allow-list, whose every code is that of a check; an entry that has expired is said.

    Raises:
        CommandError: for a code that no check has, with file, line and the nearest right one.
    """
    if not settings.allowances:
        return ()
    from gpuenv.cli.plugins import known_codes

    codes = known_codes()
    faults = [
        f"{entry.source}: allow: there is no check {entry.code}{_nearest(entry.code, codes)}"
        for entry in settings.allowances
        if entry.code not in codes
    ]
    if faults:
        raise CommandError(ExitCode.USAGE, "\n".join(faults), "gpuenv doctor --list names the checks")
    for entry in settings.allowances:
        if entry.has_expired(today()):
            announce(f"{entry.source}: allowing {entry.code} has expired on {entry.expires}, and does not count")
    return settings.allowances


def _nearest(code: str, codes: Sequence[str]) -> str:
    import difflib

    near = difflib.get_close_matches(code, codes, 9)
    swapped = [other for other in near if sorted(other) == sorted(code)]  # GPU260 for GPU206
    return f"; did you mean {(swapped or near)[0]}?" if near else ""
