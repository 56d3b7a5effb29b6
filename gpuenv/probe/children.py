"""Child processes with a deadline: the only way in which gpuenv touches a driver or a target environment.

A child runs in its own process group and is killed with it. A thread reads each of its pipes into bounded memory, so
that neither a flood of output nor a grandchild that keeps a pipe open can block the caller.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import IO, Any, NamedTuple

from gpuenv.files import read_regular
from gpuenv.interrupt import INTERRUPTIONS

_GRACE = 0.3  # seconds to wait for a killed child and its pipes
_LACK_OF_RESOURCES = (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # fork(2), pipe(2)
_POLL = 0.05  # seconds between checks for a child whose pipes a grandchild keeps open
_MARK = "GPUENV_CHILD"
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD, linux/sched.h
_LIMIT = 4 * 1024 * 1024  # bytes kept of each stream
_CHUNK = 65536

Process = subprocess.Popen[bytes]
OnText = Callable[[str], None]
_Handler = Callable[[int, Any], Any]


class Ending(str, Enum):
    """How a child ended."""

    EXITED = "exited"
    TIMED_OUT = "timed-out"
    CRASHED = "crashed"
    NOT_STARTED = "not-started"


class ChildResult(NamedTuple):
    """The output of a child, and how it ended."""

    ending: Ending  # exited, killed at the deadline, killed by a signal, or never started
    exit_code: int | None  # the negative signal number of a crash; None if it never started or was killed
    stdout: str  # standard output, up to 4 MiB
    stderr: str  # standard error, up to 4 MiB
    error: str | None  # why it could not be started
    duration: float  # seconds
    started: float  # reading of ``time.monotonic`` when it was started

    @property
    def signal_name(self) -> str | None:
        """The name of the signal that killed the child, such as ``SIGSEGV``; None if it did not crash."""
        if self.ending is not Ending.CRASHED or self.exit_code is None:
            return None
        try:
            return signal.Signals(-self.exit_code).name
        except ValueError:
            return f"signal {-self.exit_code}"


class UserIdentity(NamedTuple):
    """A user as whom a child runs; ``name`` and ``home`` are None without an account."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    name: str | None = None
    home: str | None = None


class ChildGroup:
    """The running children of one caller, which can be killed together.

    A closed group starts no further children.
    """

    def __init__(self) -> None:
        self._marked: tuple[str, float] | None = None  # the variable, and seconds since the boot
        self._lock = threading.Condition()
        self._running: set[Process] = set()
        self._starting = 0
        self._closed = False

    def start(self, start: Callable[[], Process]) -> Process:
        """Starts a child and adds it; interruptions are deferred meanwhile, so that no started child is lost.

        Raises:
            OSError: when it cannot be started, or the group is closed.
        """
        with deferred_interruptions(), self._counted():
            process = start()
            with self._lock:
                self._running.add(process)
                closed = self._closed
            if closed:
                _kill_group(process)
        return process

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """Counts a child that is being started, for which ``close`` in another thread waits."""
        with self._lock:
            if self._closed:
                raise OSError(errno.ECANCELED, os.strerror(errno.ECANCELED))
            self._starting += 1
        try:
            yield
        finally:
            with self._lock:
                self._starting -= 1
                self._lock.notify_all()

    def marked(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Adds a variable by which ``close`` finds what a child left in a session of its own, and kills it."""
        if sys.platform != "linux":
            return dict(environment)
        try:
            mark, _ = self._marked = self._marked or (os.urandom(8).hex(), time.clock_gettime(time.CLOCK_BOOTTIME))
        except OSError:  # a sandbox
            return dict(environment)
        return {**environment, _MARK: mark}

    def discard(self, process: Process) -> None:
        """Removes an ended child."""
        with self._lock:
            self._running.discard(process)

    def terminate(self, seconds: float) -> None:
        """Sends SIGTERM to every child and waits, so that each can end its own children first."""
        with self._lock:
            running = tuple(self._running)
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
        _await_all(running, time.monotonic() + seconds)

    def close(self) -> None:
        """Kills every running child and waits for it."""
        with self._lock:
            self._closed = True
            self._lock.wait_for(lambda: not self._starting, _GRACE)
            running = tuple(self._running)
        for process in running:
            _kill_group(process)
        _await_all(running, time.monotonic() + _GRACE)
        if self._marked:
            _kill_marked(*self._marked)


def run_child(  # noqa: PLR0913 - each caller needs few of them
    command: Sequence[str],
    environment: Mapping[str, str],
    deadline: float,
    group: ChildGroup | None = None,
    on_stderr: OnText | None = None,
    *,
    stdin: str | None = None,
    folder: str | None = None,
    identity: UserIdentity | None = None,
) -> ChildResult:
    """Runs a program until it exits or the deadline passes.

    Args:
        command: argument vector; nothing goes through a shell.
        environment: all its variables.
        deadline: reading of ``time.monotonic`` after which it is killed.
        group: the children with which it is killed.
        on_stderr: called with each chunk of its standard error, in another thread.
        stdin: a text for its standard input.
        folder: its working folder; None for that of this process.
        identity: the user as whom it runs; None for that of this process.

    Raises:
        OSError: for a lack of processes, files or memory, which is no fault of the program.
    """
    if group is None:
        with contextlib.closing(ChildGroup()) as single:
            return run_child(
                command, environment, deadline, single, on_stderr, stdin=stdin, folder=folder, identity=identity
            )
    started = time.monotonic()
    try:
        process = group.start(
            lambda: subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=sys.platform != "win32",
                cwd=folder,
                user=identity.uid if identity else None,
                group=identity.gid if identity else None,
                extra_groups=identity.groups if identity else None,
            )
        )
    except OSError as error:
        if error.errno in _LACK_OF_RESOURCES:
            raise
        reason = error.strerror or str(error)
        return ChildResult(Ending.NOT_STARTED, None, "", "", reason, time.monotonic() - started, started)
    try:
        out, err = _PipeReader(process.stdout), _PipeReader(process.stderr, on_stderr)
        if process.stdin is not None:
            threading.Thread(target=_feed_stdin, args=(process.stdin, stdin or ""), daemon=True).start()
        ending = _wait(process, (out, err), deadline)
    except BaseException:  # an interruption, or a thread that cannot be started
        _kill(process)
        raise
    finally:
        group.discard(process)
    code = process.poll()
    if ending is Ending.EXITED and code is not None and code < 0:
        ending = Ending.CRASHED
    exit_code = None if ending is Ending.TIMED_OUT else code
    return ChildResult(ending, exit_code, out.text(), err.text(), None, time.monotonic() - started, started)


class _PipeReader(threading.Thread):
    """Reads a pipe to its end and keeps the beginning of its content."""

    def __init__(self, pipe: IO[bytes] | None, on_text: OnText | None = None) -> None:
        super().__init__(daemon=True)
        self._pipe, self._on_text = pipe, on_text
        self._kept = bytearray()
        self.start()

    def run(self) -> None:
        if self._pipe is None:
            return
        with contextlib.suppress(OSError, ValueError), self._pipe as pipe:
            while chunk := os.read(pipe.fileno(), _CHUNK):
                self._kept += chunk[: _LIMIT - len(self._kept)]
                if self._on_text is not None:
                    self._on_text(chunk.decode("utf-8", "replace"))

    def text(self) -> str:
        return bytes(self._kept).decode("utf-8", "replace")


def _feed_stdin(pipe: IO[bytes], text: str) -> None:
    """Writes a child's standard input; ignores a child that does not read it."""
    with contextlib.suppress(OSError, ValueError), pipe:
        pipe.write(text.encode())


def _wait(process: Process, readers: Sequence[_PipeReader], deadline: float) -> Ending:
    """Waits for the end of a child and of its output; kills its group at the deadline."""
    ending = Ending.EXITED
    if not _has_ended(process, readers, deadline):
        _kill(process)
        ending = Ending.TIMED_OUT
    join_all(readers, time.monotonic() + _GRACE)
    if any(reader.is_alive() for reader in readers):
        _kill_group(process)  # a grandchild keeps a pipe open
        join_all(readers, time.monotonic() + _GRACE)
    return ending


def _has_ended(process: Process, readers: Iterable[_PipeReader], deadline: float) -> bool:
    """Waits until the child has ended, which the end of its pipes mostly shows at once."""
    for reader in readers:
        while reader.is_alive() and process.poll() is None and time.monotonic() < deadline:
            reader.join(max(0.0, min(_POLL, deadline - time.monotonic())))
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def join_all(threads: Iterable[threading.Thread], until: float) -> None:
    """Waits for each thread, at most until that reading of ``time.monotonic``."""
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


def _kill(process: Process) -> None:
    _kill_group(process)
    process.kill()
    # A process in a hung system call outlives SIGKILL; waiting would not help.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)


def _await_all(processes: Iterable[Process], until: float) -> None:
    """Waits for each process; gives up on those that hang in the kernel."""
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until - time.monotonic()))


def _kill_group(process: Process) -> None:
    """Kills a child and its descendants."""
    if sys.platform != "win32":
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            process.kill()
        except PermissionError:
            pass


def _kill_marked(mark: str, since: float) -> None:
    """Kills the processes with a mark among their variables, and those that they start meanwhile."""
    until = time.monotonic() + _GRACE
    while True:
        again = False
        for pid, is_marked in _new_processes(mark, since):
            again = True
            if is_marked:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        if not again or time.monotonic() > until:
            return
        time.sleep(_POLL / 5)


def _new_processes(mark: str, since: float) -> Iterator[tuple[int, bool]]:
    """Yields new processes: with True those that have a mark among their variables, with False those that show none.

    Linux shows no variables of a process whose program is being replaced (exec). Those of a process in an
    uninterruptible sleep are not read, which may take as long as the sleep. ``since`` is in seconds since the boot.
    """
    variable, ticks = f"{_MARK}={mark}".encode(), os.sysconf("SC_CLK_TCK")
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - names
    except OSError:  # a chroot without it
        return
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            # proc_pid_stat(5): after the name, in parentheses, come the state, as the 7th flags, as the 20th the start.
            fields = read_regular(f"/proc/{pid}/stat", _LIMIT).rpartition(b")")[2].split()
            is_process = fields[0] not in (b"Z", b"X") and not int(fields[6]) & _KERNEL_THREAD
            if not is_process or int(fields[19]) < int(since * ticks):
                continue
            variables = b"" if fields[0] == b"D" else read_regular(f"/proc/{pid}/environ", _LIMIT)
            if not variables or variable in variables.split(b"\0"):
                yield int(pid), bool(variables)


@contextlib.contextmanager
def deferred_interruptions() -> Iterator[None]:
    """Defers Ctrl-C and termination signals until the end of the block, in which a child is started.

    Only the main thread receives signals. They are not blocked, since the child would inherit the mask; ignored signals
    stay ignored, also in the child.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[int] = []
    former: dict[int, _Handler] = {number: handler for number in INTERRUPTIONS if (handler := _handler(number))}
    try:
        for number in former:
            signal.signal(number, lambda number, _: pending.append(number))
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
        for number in pending:
            former[number](number, None)


def _handler(number: signal.Signals) -> _Handler | None:
    """This program's own handler of a signal; None for the default action or an ignored signal."""
    handler = signal.getsignal(number)
    return handler if callable(handler) and not isinstance(handler, signal.Handlers) else None
