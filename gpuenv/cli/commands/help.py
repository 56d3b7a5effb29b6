"""``gpuenv help``."""

from __future__ import annotations

from typing import Annotated, Optional

import typer


def _commands() -> tuple[str, ...]:
    from gpuenv.cli.app import COMMANDS

    return COMMANDS


def help(  # noqa: A001 - the name of the command
    command: Annotated[
        Optional[list[str]],
        typer.Argument(metavar="[COMMAND]...", help="The command; default: gpuenv itself.", autocompletion=_commands),
    ] = None,
) -> None:
    """Show the help of a command."""
    from gpuenv.cli.app import run

    raise typer.Exit(run([*(command or ()), "--help"]))
