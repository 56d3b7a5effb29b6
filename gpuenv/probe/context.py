"""The context of all probes, and the children that run a probe script."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from gpuenv.model.secrets import for_the_driver
from gpuenv.probe.children import ChildGroup, ChildResult, run_child
from gpuenv.probe.interpreters import run_interpreter


def script(name: str) -> str:
    """The path of a probe script."""
    return str(Path(__file__).with_name("scripts") / name)


def target_command(interpreter: str, name: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs a probe script under the target's interpreter; -B keeps it from writing bytecode."""
    return (interpreter, "-B", script("start.py"), name, *arguments)


def working_folder(environment: Mapping[str, str]) -> tuple[str, str]:
    """The arguments of the script ``interpreter``: the caller's working folder and its PYTHONSAFEPATH."""
    folder = os.sep
    with suppress(OSError):  # it may have been removed
        folder = os.getcwd()  # noqa: PTH109 - a text
    return folder, environment.get("PYTHONSAFEPATH", "")


class ProbeContext(NamedTuple):
    """The caller's environment, the driver root and the deadline of all probes."""

    environment: Mapping[str, str]  # the caller's; a child gets those that it needs
    root: str  # the folder that contains ``/proc``, ``/sys``, ``/dev`` and the toolkits
    deadline: float  # reading of ``time.monotonic``
    group: ChildGroup  # the children that are killed together


def run_script(ctx: ProbeContext, name: str, *arguments: str, stdin: str | None = None) -> ChildResult:
    """Runs a script under gpuenv's own interpreter, without site packages and PYTHONPATH, which are the target's."""
    # Without -B a script's bytecode is cached, unless this process itself writes none.
    flags = ["-I", "-S", "-B"] if sys.dont_write_bytecode else ["-I", "-S"]
    command = [sys.executable, *flags, script("start.py"), name, *arguments]
    return run_child(command, for_the_driver(ctx.environment), ctx.deadline, ctx.group, stdin=stdin)


def run_nvml(ctx: ProbeContext) -> ChildResult:
    """Queries NVML, through nvidia-ml-py."""
    spec = find_spec("pynvml")
    return run_script(ctx, "nvml", str(Path(spec.origin).parent) if spec and spec.origin else "")


def run_target(ctx: ProbeContext, interpreter: str, name: str, *arguments: str) -> ChildResult:
    """Runs a script under the target's interpreter, with the caller's variables except secrets."""
    return run_interpreter(target_command(interpreter, name, *arguments), ctx.environment, ctx.deadline, ctx.group)
