"""The Typer application."""

from __future__ import annotations

import io
import os
from importlib import import_module
from itertools import takewhile
from typing import Annotated, Any

import typer
import typer.core

from gpuenv import __version__
from gpuenv.cli.command_errors import CommandError, OutputClosed, complain, drop_stdout
from gpuenv.cli.options import NoColor, Quiet, Verbose, with_common_options
from gpuenv.interrupt import was_interrupted
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import Lines, command_name, error_reason, sanitize

# Depending on its version, Typer vendors click or imports it: take the class that Typer uses.
_USAGE_ERRORS: type[Any] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

# Each is a module of gpuenv.cli.commands (_ for -) with a function of that name, or an ``app`` with subcommands.
COMMANDS = (
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
    "fleet",
    "check-image",
    "build-image",
    "help",
)
# The variables with the command line: of bash, and of other shells.
_COMPLETED_LINE = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
_MACHINE_OPTIONS = ("snapshot", "paste")  # options that select a machine
_HAVE_SMOKE_OPTION = ("doctor", "preflight")  # the commands with --smoke [LEVEL]
# Options after the first argument of run belong to that command, with or without --.
_CONTEXT_SETTINGS: dict[str, dict[str, Any]] = {"run": {"allow_interspersed_args": False}}


class _Command(typer.core.TyperCommand):
    """A command that refuses a second machine where it can judge only one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - a class of click
        _, _, passed = self.make_parser(ctx).parse_args(args=list(args))
        for parameter in passed:
            if parameter.name in _MACHINE_OPTIONS and not parameter.multiple and passed.count(parameter) > 1:
                ctx.fail(f"{parameter.opts[0]} is given twice, and {ctx.command_path} judges one machine")
        return super().parse_args(ctx, args)


def make_app(arguments: list[str], *, completing: bool = False) -> typer.Typer:
    """The application; if the arguments name a command, only that one, since each import costs time.

    With ``completing``, it answers a shell.
    """
    names = [name for name in COMMANDS if name == command_name(arguments)]
    app = typer.Typer(
        name="gpuenv",
        help="Find the root cause of a broken CuPy environment, and the fix.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=completing or not names,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(root)
    for name in names or COMMANDS:
        function = name.replace("-", "_")
        module = import_module(f"gpuenv.cli.commands.{function}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            settings = _CONTEXT_SETTINGS.get(name)
            app.command(name, cls=_Command, context_settings=settings)(with_common_options(getattr(module, function)))
    return app


def root(
    version: Annotated[bool, typer.Option("-V", "--version", help="Print the version and exit.")] = False,
    no_color: NoColor = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Options before the command."""
    del no_color, quiet, verbose  # with_common_options hands them to the command
    if version:
        from gpuenv.cli.output import write_stdout

        write_stdout(f"gpuenv {__version__}\n")
        raise typer.Exit


def run(arguments: list[str]) -> int:
    """Runs a command line with Typer, and returns the exit code."""
    completing = "_GPUENV_COMPLETE" in os.environ
    line = _completed_line() if completing else arguments
    command = typer.main.get_command(make_app(line, completing=completing))
    if command_name(arguments) in _HAVE_SMOKE_OPTION:
        arguments = with_level(arguments)
    try:
        code = command.main(args=arguments, prog_name="gpuenv", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except (BrokenPipeError, OutputClosed):
        raise
    except (OSError, UnicodeError) as error:
        output_error = _output_error(arguments, error)
        if output_error is None:
            raise
        raise output_error from error
    except _USAGE_ERRORS as error:
        _show(error)
        return int(error.exit_code)
    if code == ExitCode.INTERRUPTED and was_interrupted():  # otherwise it is the exit code of gpuenv run
        raise KeyboardInterrupt
    return code if isinstance(code, int) else 0


def _completed_line() -> list[str]:
    """The arguments of the command line that a shell completes, roughly: those of a command begin with its name."""
    return next((os.environ[name] for name in _COMPLETED_LINE if name in os.environ), "").split()[1:]


def with_level(arguments: list[str]) -> list[str]:
    """Replaces a bare ``--smoke`` by ``--smoke=quick``, since Typer has no options with an optional value."""
    following = [*arguments[1:], "-"]
    return [
        "--smoke=quick" if text == "--smoke" and after.startswith("-") else text
        for text, after in zip(arguments, following, strict=True)
    ]


def _show(error: Any) -> None:  # noqa: ANN401 - a class of click, which Typer may vendor
    """Prints a usage error, which quotes arguments, or the help in place of a command, to standard error."""
    if type(error).__name__ != "NoArgsIsHelpError":
        message = sanitize(error.format_message().replace("\n\t", " "))  # click lists choices on lines of their own
        error.format_message = lambda: message
    shown = io.StringIO()
    error.show(shown)
    complain(Lines(shown.getvalue().rstrip("\n").split("\n")))


def _output_error(arguments: list[str], error: OSError | UnicodeError) -> CommandError | None:
    """The error if Typer cannot write its own output, help or shell completion; None for any other error."""
    reason = error_reason(error)
    options = list(takewhile(lambda text: text != "--", arguments))
    if "--install-completion" in options:
        remedy = "gpuenv --show-completion prints what it would add"
        return CommandError(ExitCode.USAGE, f"cannot edit the startup files of your shell: {reason}", remedy)
    if {"--help", "-h", "--show-completion"} & set(options) or not options:
        drop_stdout()
        return CommandError(ExitCode.USAGE, f"standard output cannot be written: {reason}")
    return None
