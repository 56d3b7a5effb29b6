"""``gpuenv simulate``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.announce import announce
from gpuenv.cli.errors import CommandError
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.simulate.records import Profile

Name = Annotated[
    Optional[str],
    typer.Argument(metavar="PROFILE", help="A machine of --list, or the path of a profile in YAML."),
]
Command = Annotated[Optional[list[str]], typer.Argument(metavar="-- COMMAND...", help="What to run on it.")]


def simulate(
    name: Name = None,
    command: Command = None,
    list_profiles: Annotated[bool, typer.Option("--list", help="Print the machines, and end.")] = False,
    no_color: options.NoColor = False,
) -> None:
    """Run a command on a pretend machine.

    NVML, libcuda and nvidia-smi are answered by a stub driver. Linux only.

    Programs see its GPUs and its faults; no kernel runs on them. Exit code: that of the command.
    """
    if list_profiles:
        _list(color=not no_color)
        return
    if name is None:
        raise CommandError(ExitCode.USAGE, "which machine?", "gpuenv simulate --list names them")
    if not command:
        raise CommandError(ExitCode.USAGE, "nothing to run", f"gpuenv simulate {name} -- COMMAND")
    if not sys.platform.startswith("linux"):
        raise CommandError(ExitCode.USAGE, "a stub driver can stand in for the real one on Linux alone")
    from gpuenv.simulate.build import StubBuildError
    from gpuenv.simulate.run import run_on

    profile = _load(name)
    try:
        code = run_on(profile, command, dict(os.environ), announce)
    except StubBuildError as error:
        raise CommandError(
            ExitCode.USAGE, str(error), "apt install gcc libc6-dev, or name a C compiler with CC=..."
        ) from error
    raise typer.Exit(code)


def _load(name: str) -> Profile:
    import difflib

    from gpuenv.simulate.profile import ProfileError, load

    shipped = _machines() / f"{name}.yaml"
    path = Path(name) if "/" in name or not shipped.is_file() else shipped
    if not path.is_file():
        known = [entry.stem for entry in _paths()]
        near = difflib.get_close_matches(name.lower(), known, 3, 0.4)
        hint = f"did you mean {', '.join(near)}?" if near else "gpuenv simulate --list names them"
        raise CommandError(ExitCode.USAGE, f"there is no machine {name}", hint)
    try:
        return load(path)
    except ProfileError as error:
        raise CommandError(ExitCode.USAGE, str(error)) from error


def _machines() -> Path:
    from gpuenv.data import data_path

    return data_path("machines")


def _paths() -> list[Path]:
    return sorted(_machines().glob("*.yaml"))


def _list(*, color: bool) -> None:
    from gpuenv.cli.output import emit_lines
    from gpuenv.report.text import Line
    from gpuenv.simulate.profile import load

    profiles = [load(path) for path in _paths()]
    width = max(len(profile.name) for profile in profiles)
    lines = [Line(f"{profile.name:<{width}}  {profile.about}", hang=width + 2) for profile in profiles]
    emit_lines(lines, None, color=color)
