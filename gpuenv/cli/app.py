"""The Typer application, and the one place that turns whatever happens into an exit code."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Annotated, Any

import typer

from gpuenv import __version__
from gpuenv.cli import matrix
from gpuenv.cli.bundle import bundle
from gpuenv.cli.diff import diff
from gpuenv.cli.doctor import doctor
from gpuenv.cli.errors import CommandError, OutputClosed
from gpuenv.cli.explain import explain
from gpuenv.cli.install import install
from gpuenv.cli.lock import lock
from gpuenv.cli.preflight import preflight
from gpuenv.cli.probe import probe
from gpuenv.cli.resolve import resolve
from gpuenv.cli.rollback import rollback
from gpuenv.cli.run import run as run_command
from gpuenv.cli.schema import schema
from gpuenv.cli.simulate import simulate
from gpuenv.cli.smoke import smoke
from gpuenv.model.exit_codes import ExitCode

# Typer carries its own copy of click or uses the real one, by version: the class is taken from where Typer has it.
_USAGE_ERRORS: type[Any] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

app = typer.Typer(
    name="gpuenv",
    help="Names the one true cause of a broken CuPy environment, and the cure.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(doctor)
app.command()(preflight)
app.command()(resolve)
app.command()(install)
app.command()(rollback)
app.command()(lock)
app.command()(bundle)
app.command()(probe)
app.command()(smoke)
app.command()(explain)
app.command()(diff)
app.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})(run_command)
app.command()(schema)
app.command(context_settings={"ignore_unknown_options": True})(simulate)
app.add_typer(matrix.app, name="matrix")


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
) -> None:
    """Options that stand before the command."""
    if version:
        sys.stdout.write(f"gpuenv {__version__}\n")
        raise typer.Exit


def run(arguments: list[str]) -> int:
    """Runs a command line and answers its exit code; no traceback reaches the user."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _run(arguments)
    except CommandError as error:
        sys.stderr.write(f"gpuenv: {error.message}\n")
        if error.remedy:
            sys.stderr.write(f"{error.remedy}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("gpuenv: interrupted\n")
        return ExitCode.INTERRUPTED
    except (BrokenPipeError, OutputClosed):
        return ExitCode.OUTPUT_CLOSED
    except Exception as error:  # noqa: BLE001 - the last handler: a fault of ours is told as such
        return _fault(error)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """A polite request to end is treated like Ctrl-C, so that the children are ended too."""
    del number, frame
    raise KeyboardInterrupt


def _run(arguments: list[str]) -> int:
    command = typer.main.get_command(app)
    try:
        code = command.main(args=arguments, prog_name="gpuenv", standalone_mode=False)
    except typer.Abort:
        return ExitCode.INTERRUPTED
    except _USAGE_ERRORS as error:
        error.show()
        return int(error.exit_code)
    return code if isinstance(code, int) else 0


def _fault(error: Exception) -> int:
    import traceback

    frames = traceback.extract_tb(error.__traceback__)[-3:]
    where = " < ".join(
        f"{frame.name} ({frame.filename.rsplit('/gpuenv/', 1)[-1]}:{frame.lineno})" for frame in reversed(frames)
    )
    sys.stderr.write(f"gpuenv: a fault of gpuenv itself: {type(error).__name__}: {error}\n")
    sys.stderr.write(f"Please report it with this line: gpuenv {__version__}, {where}\n")
    return ExitCode.FAULT
