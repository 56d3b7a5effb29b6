"""``gpuenv simulate``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpuenv.cli import completion, options
from gpuenv.cli.command_errors import CommandError, announce, progress, usage_errors
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import Lines, did_you_mean, error_reason

if TYPE_CHECKING:
    from gpuenv.simulate.profile import Profile

Name = Annotated[
    Optional[str],
    typer.Argument(
        metavar="PROFILE",
        help="A machine of --list, or the path of a YAML profile.",
        autocompletion=completion.profiles,
    ),
]
Command = Annotated[Optional[list[str]], typer.Argument(metavar="-- COMMAND...", help="Command to run.")]


def simulate(
    name: Name = None,
    command: Command = None,
    list_profiles: Annotated[bool, typer.Option("--list", help="List the machines and exit.")] = False,
    print_profile: Annotated[
        bool, typer.Option("--print", help="Print the profile of the machine, a template for your own, and exit.")
    ] = False,
    no_color: options.NoColor = False,
) -> None:
    """Run a command on a simulated machine.

    A stub driver replaces NVML, nvidia-smi and libcuda, and gpuenv reads the kernel files of the simulated machine. No
    CUDA program runs on it: CuPy finds no working GPU. The target environment and /usr/local are those of this host.
    Linux only.

    Exit code: that of the command, as in a shell: 127 if it is not found, 126 if it cannot be run.
    """
    if list_profiles:
        _list(color=not no_color)
        return
    if name is None:
        raise CommandError(ExitCode.USAGE, "no machine named", "gpuenv simulate --list names them")
    if print_profile:
        from gpuenv.cli.output import write_stdout
        from gpuenv.model.strings import decode_text

        _load(name)  # refuses an invalid profile
        write_stdout(decode_text(_path(name).read_bytes()))
        return
    if not command:
        raise CommandError(ExitCode.USAGE, "nothing to run", f"gpuenv simulate {name} -- COMMAND")
    if not sys.platform.startswith("linux"):
        raise CommandError(ExitCode.USAGE, "gpuenv simulate works only on Linux")
    from gpuenv.simulate.launcher import run_on
    from gpuenv.simulate.profile import ProfileError
    from gpuenv.simulate.stub_driver import StubBuildError

    profile = _load(name)
    try:
        with usage_errors(ProfileError):
            code = run_on(profile, command, dict(os.environ), announce, progress)
    except StubBuildError as error:
        raise CommandError(
            ExitCode.USAGE, Lines(str(error).split("\n")), "apt install gcc libc6-dev, or name a C compiler with CC=..."
        ) from error
    raise typer.Exit(code)


def _load(name: str) -> Profile:
    from gpuenv.simulate.profile import ProfileError, load

    with usage_errors(ProfileError):
        return load(_path(name))


def _path(name: str) -> Path:
    shipped = _paths()
    path = shipped.get(name) or Path(name)
    try:
        is_there = path.is_file()
    except OSError as error:  # a parent folder is not readable, or the name is too long
        raise CommandError(ExitCode.USAGE, f"{path}: {error_reason(error)}") from error
    if not is_there:
        remedy = did_you_mean(name, shipped, most=3, cutoff=0.4) or "gpuenv simulate --list names them"
        raise CommandError(ExitCode.USAGE, f"there is no machine {name}", remedy)
    return path


def _paths() -> dict[str, Path]:
    """The shipped profiles by name."""
    from gpuenv.data import data_path

    return {path.stem: path for path in sorted(data_path("machines").glob("*.yaml"))}


def _list(*, color: bool) -> None:
    from gpuenv.cli.output import emit_lines
    from gpuenv.report.text_line import TextLine
    from gpuenv.simulate.profile import load

    profiles = [load(path) for path in _paths().values()]
    width = max(len(profile.name) for profile in profiles)
    lines = [
        TextLine(
            f"{profile.name:<{width}}  {profile.about}"
            f"{' (Its environment is not simulated.)' if _concerns_environment(profile) else ''}",
            hang=width + 2,
        )
        for profile in profiles
    ]
    emit_lines(lines, None, color=color)


def _concerns_environment(profile: Profile) -> bool:
    """Whether the profile is about its target environment, which is not simulated."""
    from gpuenv.doctor.checks import all_checks
    from gpuenv.model.causes import Cause

    if profile.found_first:  # the machine itself is broken
        return False
    target = profile.target
    if target.elsewhere or target.lib64 or any(package.startswith("cupy==") for package in target.packages):
        return True
    machine_checks = (check for check in all_checks() if not check.concerns_target)
    machine_causes = {cause.value for check in machine_checks for cause in check.causes}
    shared_causes = {Cause.ROCM_MISMATCH.value}  # between the installed packages and the machine
    return not machine_causes - shared_causes >= set(profile.expect.causes)
