"""What ends a command early: a message, a remedy and an exit code."""

from __future__ import annotations

import contextlib
import os
import sys

from gpuenv.model.harmless import harmless


class CommandError(Exception):
    """Ends the command with an exit code of the contract; ``remedy`` is printed on a line of its own."""

    def __init__(self, exit_code: int, message: str, remedy: str | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.message = message
        self.remedy = remedy


class OutputClosed(Exception):  # noqa: N818 - it is no error of ours
    """The reader of standard output has gone; not a BrokenPipeError, which click would end with a verdict's code."""


def complain(text: str) -> None:
    """Writes lines to standard error, where there is one; what they quote commands nobody and gives no secret away."""
    if sys.stderr is None:
        return
    from gpuenv.model.secrets import hide_secrets

    shown = "\n".join(harmless(hide_secrets(line)) for line in text.expandtabs().replace("\r\n", "\n").split("\n"))
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(shown + "\n")
        sys.stderr.flush()


def drop_stdout() -> None:
    """Sends what is still kept for standard output nowhere, so that nothing is said of it at interpreter exit."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
