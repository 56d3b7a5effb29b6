"""``gpuenv simulate``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.errors import CommandError, announce, usage_errors
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.simulate.profile import Profile

Name = Annotated[
    Optional[str],
    typer.Argument(metavar="PROFILE", help="A machine of --list, or the path of a profile in YAML."),
]
Command = Annotated[Optional[list[str]], typer.Argument(metavar="-- COMMAND...", help="What to run on it.")]


def simulate(
    name: Name = None,
    command: Command = None,
    list_profiles: Annotated[bool, typer.Option("--list", help="Print the machines, and end.")] = False,
    print_profile: Annotated[
        bool, typer.Option("--print", help="Print the machine's profile, to make one of your own from, and end.")
    ] = False,
    no_color: options.NoColor = False,
) -> None:
    """Run a command on a pretend machine.

    NVML, nvidia-smi and libcuda's questions are answered by a stub driver, and the kernel's files are the machine's for
    gpuenv. No CUDA program runs on it: CuPy finds no GPU that works. The target environment, and what lies in
    /usr/local, stay this host's. Linux only.

    Exit code: that of the command, as a shell tells it: 127 where there is none such, 126 where it cannot be run.
    """
    if list_profiles:
        _list(color=not no_color)
        return
    if name is None:
        raise CommandError(ExitCode.USAGE, "which machine?", "gpuenv simulate --list names them")
    if print_profile:
        from gpuenv.cli.output import write_stdout
        from gpuenv.model.strings import decode_text

        _load(name)  # only a valid one is printed
        write_stdout(decode_text(_path(name).read_bytes()))
        return
    if not command:
        raise CommandError(ExitCode.USAGE, "nothing to run", f"gpuenv simulate {name} -- COMMAND")
    if not sys.platform.startswith("linux"):
        raise CommandError(ExitCode.USAGE, "a stub driver can stand in for the real one on Linux alone")
    from gpuenv.simulate.build import StubBuildError
    from gpuenv.simulate.profile import ProfileError
    from gpuenv.simulate.run import run_on

    profile = _load(name)
    try:
        with usage_errors(ProfileError):
            code = run_on(profile, command, dict(os.environ), announce)
    except StubBuildError as error:
        raise CommandError(
            ExitCode.USAGE, str(error), "apt install gcc libc6-dev, or name a C compiler with CC=..."
        ) from error
    raise typer.Exit(code)


def _load(name: str) -> Profile:
    from gpuenv.simulate.profile import ProfileError, load

    with usage_errors(ProfileError):
        return load(_path(name))


def _path(name: str) -> Path:
    import difflib

    from gpuenv.model.strings import error_reason

    shipped = _paths()
    path = shipped.get(name) or Path(name)
    try:
        is_there = path.is_file()
    except OSError as error:  # a folder above it may not be looked into, or the name is too long
        raise CommandError(ExitCode.USAGE, f"{path}: {error_reason(error)}") from error
    if not is_there:
        near = difflib.get_close_matches(name.lower(), shipped, 3, 0.4)
        hint = f"did you mean {', '.join(near)}?" if near else "gpuenv simulate --list names them"
        raise CommandError(ExitCode.USAGE, f"there is no machine {name}", hint)
    return path


def _paths() -> dict[str, Path]:
    """The profiles that come with the program, by name."""
    from gpuenv.data import data_path

    return {path.stem: path for path in sorted(data_path("machines").glob("*.yaml"))}


def _list(*, color: bool) -> None:
    from gpuenv.cli.output import emit_lines
    from gpuenv.report.lines import Line
    from gpuenv.simulate.profile import load

    profiles = [load(path) for path in _paths().values()]
    width = max(len(profile.name) for profile in profiles)
    lines = [
        Line(
            f"{profile.name:<{width}}  {profile.about}"
            f"{' (Its environment is not simulated.)' if _lies_in_the_environment(profile) else ''}",
            hang=width + 2,
        )
        for profile in profiles
    ]
    emit_lines(lines, None, color=color)


def _lies_in_the_environment(profile: Profile) -> bool:
    """Whether what the machine shows lies in its target: a command meets the caller's own target instead."""
    from gpuenv.doctor.registry import all_checks
    from gpuenv.model.causes import Cause

    if profile.found_first:  # what is broken is the machine's
        return False
    target = profile.target
    if target.elsewhere or target.lib64 or any(package.startswith("cupy==") for package in target.packages):
        return True
    elsewhere = (check for check in all_checks() if not check.concerns_target)
    of_the_machine = {cause.value for check in elsewhere for cause in check.causes}
    of_both = {Cause.ROCM_MISMATCH.value}  # between what is installed and what is there
    return not of_the_machine - of_both >= set(profile.expect.causes)
