"""The configuration of doctor and preflight: its file, suppressions, and the findings that become errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.check_codes import known_codes
from gpuenv.cli.command_errors import CommandError, announce, working_folder
from gpuenv.clock import today
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import Lines, did_you_mean

if TYPE_CHECKING:
    from gpuenv.model.finding import Suppression
    from gpuenv.preflight.config import Config, FailOn


def read_config(path: Path | None, *, no_config: bool) -> Config:
    """Reads the named configuration file, or the nearest one.

    Raises:
        CommandError: when it cannot be read or is invalid, with every error.
    """
    from gpuenv.preflight.config import Config, ConfigError, find_config, load_config

    if no_config:
        if path is not None:
            raise CommandError(ExitCode.USAGE, "--config and --no-config exclude each other")
        return Config()
    try:
        if path is not None:
            return load_config(path)
        folder = working_folder("--no-config looks for no configuration file")
        found = find_config(folder, announce)
        if found is None:
            return Config()
        name = found.path.name if found.path.parent == folder else str(found.path)
        return load_config(found.path, name, found.raw)
    except ConfigError as error:
        remedy = None if error.unread else "gpuenv preflight --list-requirements shows the grammar"
        raise CommandError(ExitCode.USAGE, str(error), remedy) from error


def check_suppressions(suppressions: tuple[Suppression, ...]) -> None:
    """Refuses suppressions of unknown codes; announces expired ones.

    Raises:
        CommandError: for an unknown code, with file, line and the nearest known code.
    """
    if not suppressions:
        return
    codes = known_codes()
    _raise_unknown(
        f"{entry.source}: allow: there is no check {entry.code}{did_you_mean(entry.code, codes, before='; ')}"
        for entry in suppressions
        if entry.code not in codes
    )
    for entry in suppressions:
        if entry.has_expired(today()):
            announce(f"{entry.source}: the suppression of {entry.code} expired on {entry.expires} and is ignored")


def fail_on_names(entries: Sequence[FailOn]) -> tuple[str, ...]:
    """The names of ``--fail-on`` and the configuration, in the spelling of ``DiagnosisOptions``.

    Raises:
        CommandError: for a name that is neither ``warning``, nor a code, nor a cause, with the nearest one.
    """
    if not entries:
        return ()
    from gpuenv.model.causes import Cause
    from gpuenv.model.finding import Severity

    spellings = (Severity.WARNING.value, *known_codes(), *(cause.value for cause in Cause))
    known = {name.lower(): name for name in spellings}
    _raise_unknown(
        f"{entry.source}: expected warning, the code of a check or a cause, found {entry.name}"
        f"{did_you_mean(entry.name, spellings, before='; ')}"
        for entry in entries
        if entry.name.strip().lower() not in known
    )
    return tuple(known[entry.name.strip().lower()] for entry in entries)


def smoke_fail_on_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names of ``--fail-on`` of ``gpuenv smoke``, which runs only the checks of GPU tests.

    Raises:
        CommandError: for an unknown name, or the code of another check.
    """
    from gpuenv.doctor.registry import REGISTERED
    from gpuenv.preflight.config import FailOn

    found = fail_on_names([FailOn(name) for name in names])
    for code in set(found).intersection(known_codes()):
        if code not in REGISTERED or not REGISTERED[code].reads_gpu_tests:
            message = f"--fail-on {code}: not a check of GPU tests"
            raise CommandError(ExitCode.USAGE, message, f"gpuenv preflight --smoke --fail-on {code}")
    return found


def _raise_unknown(errors: Iterable[str]) -> None:
    if lines := tuple(errors):
        raise CommandError(ExitCode.USAGE, Lines(lines), "gpuenv doctor --list names the checks and causes")
