"""Runs a command line and turns every exception into an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from gpuenv import __version__
from gpuenv.cli.command_errors import (
    CommandError,
    OutputClosed,
    announce,
    complain,
    removed_folder_error,
    resource_error,
)
from gpuenv.files import own_search_path, own_temporary_folder
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import command_name, pattern

_COMPLETE = "_GPUENV_COMPLETE"  # set by the shell
_COMPLETION = pattern(r"(?:complete|source)_[a-z]+")
_OPEN_FILES = 64  # more than a command opens at once: the doctor's output changes below 30


def run(arguments: list[str]) -> int:
    """Runs a command line and returns its exit code; the user never sees a traceback."""
    try:
        if _COMPLETION.fullmatch(os.environ.get(_COMPLETE, "")):
            sys.modules["rich"] = None  # type: ignore[assignment] # Typer would import it and read help as markup
            return _run(arguments)
        os.environ.pop(_COMPLETE, None)  # Typer prints an unknown one
        _check_open_files()
        if folder := own_temporary_folder(os.environ, announce):
            os.environ["TMPDIR"] = folder
        if command_name(arguments) not in ("run", "simulate"):  # their programs get the caller's
            search_own_path(announce)
        return _run(arguments)
    except CommandError as error:
        return _report(error)
    except KeyboardInterrupt:
        complain("gpuenv: interrupted")
        return ExitCode.INTERRUPTED
    except (BrokenPipeError, OutputClosed):
        return ExitCode.OUTPUT_CLOSED
    except Exception as error:  # noqa: BLE001 - the last handler: reports a bug of gpuenv
        known = resource_error(error) or removed_folder_error(error)
        return _report(known) if known else _report_bug(error)


def _run(arguments: list[str]) -> int:
    from gpuenv.cli import app

    return app.run(arguments)


def search_own_path(notify: Callable[[str], None]) -> None:
    """Searches only the absolute folders of PATH from now on."""
    if (path := own_search_path(os.environ, notify)) is not None:
        os.environ["PATH"] = path


def _check_open_files() -> None:
    """Opens as many files as a command may need: with fewer, a probe would find less, and the verdict be wrong.

    Raises:
        OSError: when the limit (``ulimit -n``) is too low, or the system has no more.
    """
    opened: list[int] = []
    try:
        while len(opened) < _OPEN_FILES:
            opened.append(os.open(os.devnull, os.O_RDONLY))
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _report(error: CommandError) -> int:
    announce(error.message)
    if error.remedy:
        complain(error.remedy, wrap=True)
    return error.exit_code


def _report_bug(error: Exception) -> int:
    import traceback

    frames = traceback.extract_tb(error.__traceback__)[-3:]
    location = " < ".join(
        f"{frame.name} ({frame.filename.rsplit('/gpuenv/', 1)[-1]}:{frame.lineno})" for frame in reversed(frames)
    )
    complain(f"gpuenv: internal error: {type(error).__name__}: {error}")
    complain(f"Please report it with this line: gpuenv {__version__}, {location}")
    return ExitCode.FAULT
