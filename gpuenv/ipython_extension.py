"""The magic ``%gpuenv`` of ``%load_ext gpuenv``: commands of gpuenv in a notebook or in IPython.

Each runs in a child process, so that neither the driver nor CuPy is touched in the kernel.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import traceback
from typing import IO, Protocol

from gpuenv.doctor.fixes.adaptation import TARGET_COMMANDS
from gpuenv.model.strings import command_name

# explain and run concern a text or a program, fleet node the machine.
KERNEL_COMMANDS = (*TARGET_COMMANDS, "lock", "bundle")
# With one of these options, the command examines another environment than that of the kernel.
_OTHER_TARGETS = {"--python", "--kernel", "--snapshot", "--paste", "--no-probe"}


class Shell(Protocol):
    """The used part of IPython's ``InteractiveShell``."""

    def register_magic_function(self, func: object, magic_kind: str, magic_name: str) -> None:
        """Registers a magic."""


def register(shell: Shell) -> None:
    """Registers the magic."""
    shell.register_magic_function(run_command, "line", "gpuenv")


def run_command(line: str) -> None:
    """Runs a command of gpuenv and shows its output, such as ``%gpuenv doctor``.

    The target is the environment of the kernel, unless an option names another one. ``%gpuenv explain`` without a text
    explains the last error of the notebook.
    """
    arguments = shlex.split(line)
    options = {argument.partition("=")[0] for argument in arguments}
    command = command_name(arguments)
    if command in KERNEL_COMMANDS and not options & _OTHER_TARGETS:
        after = arguments.index(command) + 1
        arguments[after:after] = ["--python", sys.executable]
    with tempfile.TemporaryFile() as file:
        file.write(_last_error().encode("utf-8", "replace"))
        file.seek(0)
        _show_output(arguments, file)


def _last_error() -> str:
    """The traceback of the last error that the notebook showed; empty if there is none."""
    error = getattr(sys, "last_value", None)
    return "".join(traceback.format_exception(error)) if error is not None else ""


def _show_output(arguments: list[str], stdin: IO[bytes]) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "gpuenv", *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    ) as process:
        try:
            for text in process.stdout or ():
                print(text, end="")  # noqa: T201 - the notebook's output
        except KeyboardInterrupt:  # IPython interrupts the kernel alone
            process.terminate()
            raise
