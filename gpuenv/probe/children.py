"""Child processes with a deadline: the only way this program touches a driver or a target environment.

A child is started in a process group of its own and killed with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TypeVar

from gpuenv.probe.interruption import interruptions_held_back
from gpuenv.probe.listening import Heard, Listener, Process, listen

_GRACE = 0.3  # seconds that a killed child, and its pipes, are given to end

_Started = TypeVar("_Started", bound=Process)


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


Answer = Callable[[], ChildResult]


class ChildGroup:
    """The children of one asking, so that whoever is interrupted, or will wait no longer, can end them all.

    A child that is started after the group was closed is ended at once.
    """

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._running: set[Process] = set()
        self._starting = 0
        self._closed = False

    def start(self, start: Callable[[], _Started]) -> _Started:
        """Starts a child and takes it in; an interruption waits for that, or the child would be forgotten."""
        with interruptions_held_back(), self._counted():
            process = start()
            self.add(process)
        return process

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """Whoever closes the group meanwhile, in another thread, waits for the end of the block."""
        with self._lock:
            self._starting += 1
        try:
            yield
        finally:
            with self._lock:
                self._starting -= 1
                self._lock.notify_all()

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
        _await_all(running, time.monotonic() + seconds)

    def close(self) -> None:
        """Ends every child that still runs, and waits for it: the kernel takes a moment."""
        with self._lock:
            self._closed = True
            self._lock.wait_for(lambda: not self._starting, _GRACE)
            running = tuple(self._running)
        for process in running:
            _kill_group(process)
        _await_all(running, time.monotonic() + _GRACE)


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
    if group is None:
        with contextlib.closing(ChildGroup()) as own:
            return run_child(command, environment, deadline, own, heard, told)
    started = time.monotonic()
    process = start_process(command, environment, group, listening=told is not None)
    if isinstance(process, ChildResult):
        return process
    tell(process, told or "")
    return follow(process, started, deadline, group, heard)


def start_child(command: Sequence[str], environment: Mapping[str, str], deadline: float, group: ChildGroup) -> Answer:
    """Starts a program at once, and answers what listens to it until it ends; for the rest see ``run_child``."""
    started = time.monotonic()
    process = start_process(command, environment, group)
    if isinstance(process, ChildResult):
        not_started = process
        return lambda: not_started
    return partial(follow, process, started, deadline, group)


def follow(
    process: Process, started: float, deadline: float, group: ChildGroup, heard: Heard | None = None
) -> ChildResult:
    """Reads the output of a child that runs, in a process group of its own, until it ends or the deadline comes.

    Args:
        process: the child, which has been started with pipes.
        started: reading of ``time.monotonic`` when it was.
        deadline: reading of ``time.monotonic`` after which it is killed.
        group: the children that it shall be ended with.
        heard: told what it writes to standard error, as it comes.
    """
    group.add(process)
    try:
        with contextlib.closing(listen(process, heard)) as listener:
            return hear_out(process, listener, started, deadline)
    finally:
        group.discard(process)


def start_process(
    command: Sequence[str], environment: Mapping[str, str], group: ChildGroup, *, listening: bool = False
) -> Process | ChildResult:
    """A program that runs, or why it does not; one that is to be told something has a pipe for that."""
    started = time.monotonic()
    try:
        return group.start(
            lambda: subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.PIPE if listening else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=sys.platform != "win32",
            )
        )
    except OSError as error:
        reason = error.strerror or str(error)
        return ChildResult(Ending.NOT_STARTED, None, "", "", reason, time.monotonic() - started, started)


def tell(process: Process, text: str) -> None:
    """Writes to a child's standard input and closes it; one that does not read is left to itself."""
    if process.stdin is not None:
        with contextlib.suppress(OSError), process.stdin as pipe:
            pipe.write(text.encode())


def let_go(process: Process) -> None:
    """Closes a child's standard input: nothing more is wanted of it."""
    if process.stdin is not None:
        process.stdin.close()


def hear_out(process: Process, listener: Listener, started: float, deadline: float) -> ChildResult:
    """Reads a child's output and waits for its end, or for the deadline, at which it is killed."""
    ending = _wait(process, listener, deadline)
    if not listener.finish(_GRACE):
        _kill_group(process)  # a grandchild keeps a pipe open
        listener.finish(_GRACE)
    out, err = listener.texts()
    code = process.poll()
    if ending is Ending.EXITED and code is not None and code < 0:
        ending = Ending.CRASHED
    exit_code = None if ending is Ending.TIMED_OUT else code
    return ChildResult(ending, exit_code, out, err, None, time.monotonic() - started, started)


def _wait(process: Process, listener: Listener, deadline: float) -> Ending:
    """Waits for the end; kills the whole group at the deadline, or when waiting is interrupted."""
    try:
        if listener.await_exit(max(0.0, deadline - time.monotonic())):
            return Ending.EXITED
    except BaseException:
        _kill(process)
        raise
    _kill(process)
    return Ending.TIMED_OUT


def _kill(process: Process) -> None:
    _kill_group(process)
    process.kill()
    # A process inside a hung system call outlives SIGKILL; it is left to the kernel.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)


def _await_all(processes: Iterable[Process], until: float) -> None:
    """Waits for the end of each, or for that reading of ``time.monotonic``; what hangs in the kernel is left to it."""
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until - time.monotonic()))


def _kill_group(process: Process) -> None:
    """Ends the child and whatever it started; a fork that was only just made has no group of its own yet."""
    if sys.platform != "win32":
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            process.kill()
        except PermissionError:
            pass
