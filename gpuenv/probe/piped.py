"""A child that was made without ``subprocess``."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from typing import IO

_MOMENT = 0.01  # seconds between two looks, where the kernel cannot tell of an end


class Piped:
    """A child of this process with a pipe for each stream, and what is asked of a ``subprocess.Popen``."""

    stdin: IO[bytes] | None
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None

    def __init__(self, name: str, pid: int, out: int, err: int, told: int | None = None) -> None:
        """Takes over a process.

        Args:
            name: what it is called where it does not end in time.
            pid: its number.
            out: the descriptor from which its standard output is read.
            err: likewise, its standard error.
            told: the descriptor to which its standard input is written, if it has any.
        """
        self.pid = pid
        self.stdin = None if told is None else os.fdopen(told, "wb", 0)
        self.stdout, self.stderr = os.fdopen(out, "rb", 0), os.fdopen(err, "rb", 0)
        self.returncode: int | None = None
        self._name = name
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """The exit code, the negative number of the signal that ended it, or None while it runs."""
        with self._lock:
            if self.returncode is None:
                self.returncode = self._ended()
            return self.returncode

    def _ended(self) -> int | None:
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            return 0  # somebody else has waited for it: how it ended is not known, as subprocess has it
        return os.waitstatus_to_exitcode(status) if pid else None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once there is one.

        Raises:
            TimeoutExpired: when it still runs after ``timeout`` seconds.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if until is not None and time.monotonic() >= until:
                raise subprocess.TimeoutExpired(self._name, timeout or 0.0)
            time.sleep(_MOMENT)
        return code

    def kill(self) -> None:
        """Ends it, if it still runs."""
        with self._lock, contextlib.suppress(ProcessLookupError):
            if self.returncode is None:
                os.kill(self.pid, signal.SIGKILL)
