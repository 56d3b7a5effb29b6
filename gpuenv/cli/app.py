"""The Typer application."""

from __future__ import annotations

import contextlib
import sys
from importlib import import_module
from itertools import takewhile
from typing import Annotated, Any

import typer

from gpuenv import __version__
from gpuenv.cli.errors import CommandError, OutputClosed, drop_stdout
from gpuenv.interrupt import was_interrupted
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import error_reason

# Typer carries its own copy of click or uses the real one, by version: the class is taken from where Typer has it.
_USAGE_ERRORS: type[Any] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

# Each has a module in gpuenv.cli.commands (with _ for -), with a function of the same name or an ``app`` of several.
_COMMANDS = (
    "doctor",
    "preflight",
    "resolve",
    "install",
    "rollback",
    "lock",
    "bundle",
    "probe",
    "smoke",
    "explain",
    "diff",
    "run",
    "schema",
    "simulate",
    "matrix",
    "check-image",
    "build-image",
)
_PROVING = (["doctor"], ["preflight"])  # the commands with --smoke [LEVEL]
# What follows the first word of run's command is that command's own, with or without --.
_SETTINGS: dict[str, dict[str, Any]] = {"run": {"allow_interspersed_args": False}}


def make_app(arguments: list[str]) -> typer.Typer:
    """The application, with the named command alone where the first argument names one: the others cost time."""
    names = [name for name in arguments[:1] if name in _COMMANDS]
    app = typer.Typer(
        name="gpuenv",
        help="Names the one true cause of a broken CuPy environment, and the cure.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=not names,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(root)
    for name in names or _COMMANDS:
        function = name.replace("-", "_")
        module = import_module(f"gpuenv.cli.commands.{function}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name, context_settings=_SETTINGS.get(name))(getattr(module, function))
    return app


def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
) -> None:
    """Options that stand before the command."""
    if version:
        from gpuenv.cli.output import write_stdout

        write_stdout(f"gpuenv {__version__}\n")
        raise typer.Exit


def run(arguments: list[str]) -> int:
    """Runs a command line with Typer, and returns the exit code."""
    command = typer.main.get_command(make_app(arguments))
    if arguments[:1] in _PROVING:
        arguments = with_level(arguments)
    try:
        code = command.main(args=arguments, prog_name="gpuenv", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None  # which is what it was
    except (BrokenPipeError, OutputClosed):
        raise
    except (OSError, UnicodeError) as error:
        refused = _refused(arguments, error)
        if refused is None:
            raise
        raise refused from error
    except _USAGE_ERRORS as error:
        _show(error)
        return int(error.exit_code)
    if code == ExitCode.INTERRUPTED and was_interrupted():  # else it is that of a program that was run
        raise KeyboardInterrupt
    return code if isinstance(code, int) else 0


def with_level(arguments: list[str]) -> list[str]:
    """The arguments with ``--smoke`` alone as ``--smoke=quick``: Typer has no option whose value may be left out."""
    following = [*arguments[1:], "-"]
    return [
        "--smoke=quick" if text == "--smoke" and after.startswith("-") else text
        for text, after in zip(arguments, following, strict=True)
    ]


def _show(error: Any) -> None:  # noqa: ANN401 - Typer hands on a class of the library that it brings
    """Prints a usage error to standard error, if there is one."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            error.show()


def _refused(arguments: list[str], error: OSError | UnicodeError) -> CommandError | None:
    """The message where Typer's own output, help or shell completion, cannot be written."""
    reason = error_reason(error)
    if "--install-completion" in arguments[:1]:
        remedy = "gpuenv --show-completion prints what it would add"
        return CommandError(ExitCode.USAGE, f"the files of your shell cannot be changed: {reason}", remedy)
    own = list(takewhile(lambda word: word != "--", arguments))
    if {"--help", "-h", "--show-completion"} & set(own) or not own:
        drop_stdout()
        return CommandError(ExitCode.USAGE, f"standard output cannot be written: {reason}")
    return None
