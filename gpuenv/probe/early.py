"""The first child, started with hardly anything imported: what understands its answer is imported while it works."""

from __future__ import annotations

import os
import signal
import time

from gpuenv.interrupt import INTERRUPTIONS

TYPE_CHECKING = False  # importing typing takes a tenth of the time that is won here
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_IGNORED = ("SIGPIPE", "SIGXFSZ")  # by this interpreter, and no child shall inherit that
_GRACE, _MOMENT = 0.3, 0.001  # seconds that a killed child is given to end, and between two looks
_FIRST_FREE = 3  # descriptors below are the standard streams, unless somebody has closed them


class Early:
    """A child that runs, in a session of its own, with a pipe for each of its three streams.

    Attributes:
        command: what it was started with.
        pid: its process.
        out: the descriptor of the pipe of its standard output.
        err: likewise, of its standard error.
        told: likewise, of its standard input.
        started: reading of ``time.monotonic``.
    """

    def __init__(self, command: Sequence[str], pid: int, out: int, err: int, told: int) -> None:
        self.command, self.pid = command, pid
        self.out, self.err, self.told = out, err, told
        self.started = time.monotonic()

    def end(self) -> None:
        """Ends it and whatever it has started, and waits for it: the kernel takes a moment."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return
        until = time.monotonic() + _GRACE
        while self._runs() and time.monotonic() < until:
            time.sleep(_MOMENT)

    def _runs(self) -> bool:
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] == 0
        except ChildProcessError:
            return False


def start_early(command: Sequence[str], environment: Mapping[str, str], into: list[Early]) -> None:
    """Starts a program; where that cannot be done in this way, nothing: it is started like any other later on.

    Args:
        command: argument vector; nothing goes through a shell.
        environment: its whole environment.
        into: takes in the child before an interruption can come between.
    """
    if not hasattr(os, "posix_spawn"):
        return
    pipes: list[int] = []
    former = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTIONS)
    try:
        for _ in range(3):
            pipes += os.pipe()
        if min(pipes) >= _FIRST_FREE:  # else one has taken the place of a standard stream
            ends = [pipes[4], pipes[1], pipes[3]]
            pid = _spawned(command, environment, ends, former)
            into.append(Early(command, pid, pipes[0], pipes[2], pipes[5]))
            pipes = ends
    except (OSError, ValueError, NotImplementedError):
        pass  # told by the usual way
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
        for descriptor in pipes:
            os.close(descriptor)


def _spawned(
    command: Sequence[str], environment: Mapping[str, str], ends: Sequence[int], mask: set[signal.Signals | int]
) -> int:
    """The process, with these ends of pipes as its standard streams and with the signals as they were.

    Raises:
        OSError: when it cannot be started, or what it would inherit cannot be told.
        ValueError: for a variable whose name no environment may have.
        NotImplementedError: when this system starts no sessions so.
    """
    return os.posix_spawn(
        command[0],
        list(command),
        environment,
        file_actions=[
            *((os.POSIX_SPAWN_DUP2, end, stream) for stream, end in enumerate(ends)),
            *((os.POSIX_SPAWN_CLOSE, descriptor) for descriptor in _inheritable()),
        ],
        setsid=True,
        setsigmask=mask,
        setsigdef=[getattr(signal, name) for name in _IGNORED if hasattr(signal, name)],
    )


def _inheritable() -> list[int]:
    """What this process was handed besides its standard streams, for its own use: a lock, say, or a secret.

    Raises:
        OSError: where the system does not tell.
    """
    folder = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"  # noqa: PTH112 - for start-up
    handed = (int(name) for name in os.listdir(folder))  # noqa: PTH208 - likewise
    return [descriptor for descriptor in handed if descriptor >= _FIRST_FREE and _is_inheritable(descriptor)]


def _is_inheritable(descriptor: int) -> bool:
    try:
        return os.get_inheritable(descriptor)
    except OSError:
        return False  # that of the list itself, which is closed by now
