"""Runs a command line and turns every exception into an exit code."""

from __future__ import annotations

from gpuenv import __version__
from gpuenv.cli.command_errors import CommandError, OutputClosed, complain, resource_error, wrapped
from gpuenv.model.exit_codes import ExitCode


def run(arguments: list[str]) -> int:
    """Runs a command line and returns its exit code; the user never sees a traceback."""
    try:
        from gpuenv.cli import app

        return app.run(arguments)
    except CommandError as error:
        return _report(error)
    except KeyboardInterrupt:
        complain("gpuenv: interrupted")
        return ExitCode.INTERRUPTED
    except (BrokenPipeError, OutputClosed):
        return ExitCode.OUTPUT_CLOSED
    except Exception as error:  # noqa: BLE001 - the last handler: reports a bug of gpuenv
        resource = resource_error(error)
        return _report(resource) if resource else _report_bug(error)


def _report(error: CommandError) -> int:
    complain(wrapped(f"gpuenv: {error.message}"))
    if error.remedy:
        complain(wrapped(error.remedy))
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
