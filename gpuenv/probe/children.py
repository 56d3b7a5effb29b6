"""Child processes with a deadline: the only way this program touches a driver or a target environment.

A child is started in a process group of its own and killed with it. Its output is read by a thread into bounded memory,
so that neither a flood nor a grandchild that keeps the pipe open can hold the caller.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import IO, Protocol

from gpuenv.model.record import dataclass

_OUTPUT_LIMIT = 4 * 1024 * 1024
_GRACE = 0.3  # seconds that a killed child's pipes are given to end


Heard = Callable[[str], None]


class Ending(str, Enum):
    """How a child ended."""

    EXITED = "exited"
    TIMED_OUT = "timed-out"
    CRASHED = "crashed"
    NOT_STARTED = "not-started"


@dataclass(frozen=True, slots=True)
class ChildResult:
    """What a child said, and how it ended.

    Attributes:
        ending: exited by itself, killed at the deadline, ended by a signal, or never started.
        exit_code: the exit status; the negative signal number of a crash; None if it never started or was killed.
        stdout: what it printed, up to 4 MiB.
        stderr: what it complained, likewise.
        error: why it could not be started.
        duration: seconds.
        started: reading of ``time.monotonic`` when it was started.
    """

    ending: Ending
    exit_code: int | None
    stdout: str
    stderr: str
    error: str | None
    duration: float
    started: float

    @property
    def signal_name(self) -> str | None:
        """``SIGSEGV`` and the like, for a child that crashed."""
        if self.ending is not Ending.CRASHED or self.exit_code is None:
            return None
        try:
            return signal.Signals(-self.exit_code).name
        except ValueError:
            return f"signal {-self.exit_code}"


class _Drain(threading.Thread):
    """Reads a pipe to its end, keeping the first bytes and dropping the rest; ``heard`` is told them all at once."""

    def __init__(self, pipe: IO[bytes], heard: Heard | None = None) -> None:
        super().__init__(daemon=True)
        self._pipe = pipe
        self._heard = heard
        self._kept = bytearray()
        self.start()

    def run(self) -> None:
        """Reads until the last writer closes, then closes this side."""
        with contextlib.suppress(OSError, ValueError), self._pipe:
            while chunk := os.read(self._pipe.fileno(), 65536):
                self._kept += chunk[: _OUTPUT_LIMIT - len(self._kept)]
                if self._heard is not None:
                    self._heard(chunk.decode("utf-8", "replace"))

    def finish(self, seconds: float) -> bool:
        """Waits for the end; False where somebody still holds the other side."""
        self.join(seconds)
        return not self.is_alive()

    def text(self) -> str:
        """What has been read so far."""
        return bytes(self._kept).decode("utf-8", "replace")


class Process(Protocol):
    """What is asked of a child that was started; a ``subprocess.Popen`` is one."""

    pid: int
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """The exit code; ``TimeoutExpired`` where there is none after so many seconds."""
        ...

    def kill(self) -> None:
        """Ends it."""
        ...


class ChildGroup:
    """The children of one asking, so that whoever is interrupted, or will wait no longer, can end them all.

    A child that is started after the group was closed is ended at once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[Process] = set()
        self._closed = False

    def add(self, process: Process) -> None:
        """Takes in a child that was just started."""
        with self._lock:
            self._running.add(process)
            closed = self._closed
        if closed:
            _kill_group(process)

    def discard(self, process: Process) -> None:
        """Lets go of a child that has ended."""
        with self._lock:
            self._running.discard(process)

    def terminate(self, seconds: float) -> None:
        """Asks every child to end by itself and waits; one that does so can end what it has started first."""
        with self._lock:
            running = tuple(self._running)
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
        until = time.monotonic() + seconds
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))

    def close(self) -> None:
        """Ends every child that still runs."""
        with self._lock:
            self._closed = True
            running = tuple(self._running)
        for process in running:
            _kill_group(process)


def run_child(
    command: Sequence[str],
    environment: Mapping[str, str],
    deadline: float,
    group: ChildGroup | None = None,
    heard: Heard | None = None,
    told: str | None = None,
) -> ChildResult:
    """Runs a program until it ends or the deadline comes.

    Args:
        command: argument vector; nothing goes through a shell.
        environment: its whole environment.
        deadline: reading of ``time.monotonic`` after which it is killed.
        group: the children that it shall be ended with.
        heard: told what it writes to standard error, as it comes.
        told: a short text for its standard input: less than a pipe holds.
    """
    started = time.monotonic()
    try:
        process = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL if told is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=sys.platform != "win32",
        )
    except OSError as error:
        reason = error.strerror or str(error)
        return ChildResult(Ending.NOT_STARTED, None, "", "", reason, time.monotonic() - started, started)
    _tell(process, told)
    return follow(process, started, deadline, group, heard)


def follow(
    process: Process, started: float, deadline: float, group: ChildGroup | None = None, heard: Heard | None = None
) -> ChildResult:
    """Reads the output of a child that runs, in a process group of its own, until it ends or the deadline comes."""
    group = group or ChildGroup()
    group.add(process)
    try:
        return _follow(process, started, deadline, heard)
    finally:
        group.discard(process)


def _tell(process: subprocess.Popen[bytes], text: str | None) -> None:
    """Writes to a child's standard input and closes it; one that does not read is left to itself."""
    if text is not None and process.stdin is not None:
        with contextlib.suppress(OSError), process.stdin as pipe:
            pipe.write(text.encode())


def _follow(process: Process, started: float, deadline: float, heard: Heard | None) -> ChildResult:
    """Reads a child's output and waits for its end."""
    assert process.stdout is not None  # noqa: S101 - for the type checker
    assert process.stderr is not None  # noqa: S101 - for the type checker
    out, err = _Drain(process.stdout), _Drain(process.stderr, heard)
    ending = _wait(process, deadline)
    if not (out.finish(_GRACE) and err.finish(_GRACE)):
        _kill_group(process)  # a grandchild keeps a pipe open
        out.finish(_GRACE)
        err.finish(_GRACE)
    code = process.poll()
    if ending is Ending.EXITED and code is not None and code < 0:
        ending = Ending.CRASHED
    exit_code = None if ending is Ending.TIMED_OUT else code
    return ChildResult(ending, exit_code, out.text(), err.text(), None, time.monotonic() - started, started)


def _wait(process: Process, deadline: float) -> Ending:
    """Waits for the end; kills the whole group at the deadline, or when waiting is interrupted."""
    try:
        _await_exit(process, max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        _kill(process)
        return Ending.TIMED_OUT
    except BaseException:
        _kill(process)
        raise
    return Ending.EXITED


def _await_exit(process: Process, seconds: float) -> None:
    """``Popen.wait`` with a timeout looks twenty times a second; Linux tells at once, through a descriptor."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        process.wait(seconds)
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll(seconds * 1000)
        process.wait(0)
    finally:
        os.close(descriptor)


def _kill(process: Process) -> None:
    _kill_group(process)
    process.kill()
    # A process inside a hung system call outlives SIGKILL; it is left to the kernel.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)


def _kill_group(process: Process) -> None:
    """Ends the child and whatever it started; a fork that was only just made has no group of its own yet."""
    if sys.platform != "win32":
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            process.kill()
        except PermissionError:
            pass
