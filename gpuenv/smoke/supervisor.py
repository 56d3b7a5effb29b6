"""Runs one program with a time limit and leaves none of its processes behind.

``supervisor.py SECONDS FOLDER IDENTITY PROGRAM ARGUMENT...``, run with gpuenv's own interpreter. IDENTITY is empty, or
the numbers of a user, its group and its further groups, as whom the program runs: ``1000:1000:27``. On Linux the
supervisor becomes the parent of orphaned descendants (prctl, PR_SET_CHILD_SUBREAPER), so that it finds and kills even
those that left the process group and the session. It ends as the program did, with the same exit code or signal; with
``TIMED_OUT`` if it killed the program, with ``NOT_STARTED`` if it could not start it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType

TIMED_OUT, NOT_STARTED = 124, 127
_REAP_SECONDS = 0.3  # to wait for killed processes; one in a hung system call is left to the kernel
# linux/prctl.h
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36


def main() -> None:
    """Runs the program in the arguments."""
    seconds, folder, identity, command = float(sys.argv[1]), sys.argv[2], sys.argv[3], [*sys.argv[4:]]
    until = time.monotonic() + seconds
    signal.signal(signal.SIGTERM, _on_terminate)
    _prctl(_SET_CHILD_SUBREAPER, 1)
    _prctl(_SET_PDEATHSIG, signal.SIGTERM)
    try:
        code = _run(command, folder, [*map(int, filter(None, identity.split(":")))], until)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        reap_descendants()
    if code < 0:
        _reraise_signal(-code)
    sys.exit(code)


def _run(command: Sequence[str], folder: str, identity: Sequence[int], until: float) -> int:
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            user=identity[0] if identity else None,
            group=identity[1] if identity else None,
            extra_groups=identity[2:] if identity else None,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - this process has one thread
        )
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return NOT_STARTED
    try:
        return process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return TIMED_OUT


def reap_descendants() -> None:
    """Kills all descendants of this process and reaps them within a time limit."""
    until = time.monotonic() + _REAP_SECONDS
    while time.monotonic() < until:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def descendants(root: int) -> list[int]:
    """Returns all descendants of a process, according to /proc."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():  # noqa: PTH112, PTH208 - fast start
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - fast start
                # The program name is in parentheses and may contain any character.
                parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
    found, fresh = [], [root]
    while fresh:
        fresh = [pid for pid, parent in parents.items() if parent in fresh]
        found += fresh
    return found


def _prctl(option: int, value: int) -> None:
    """Calls prctl on Linux; other systems can kill only the process group."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _die_with_parent() -> None:
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)


def _on_terminate(number: int, frame: FrameType | None) -> None:
    """Exits on SIGTERM, which kills all descendants.

    Later signals are ignored: the kernel sends one for each thread of a dead parent, and reaping must complete.
    """
    del number, frame
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + signal.SIGTERM)


def _reraise_signal(number: int) -> None:
    """Ends by the same signal as the program, without a core file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    main()
