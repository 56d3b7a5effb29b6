"""Children that are forks of this process: an interpreter that has been started need not be started again.

A fork is a process of its own like any other child: it may crash, hang or be killed without this one. It is made only
while this process has a single thread, and only where the child is to have this process's own environment.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import IO, NoReturn

from gpuenv.model.secrets import for_the_driver

_MOST_FILES = 4096  # descriptors that a fork closes; what is above is closed on exec, and a fork executes nothing
_MOMENT = 0.01  # seconds between two looks, where the kernel cannot tell of an end


class Forked:
    """A forked child, with what is asked of a ``subprocess.Popen``."""

    stdout: IO[bytes] | None
    stderr: IO[bytes] | None

    def __init__(self, name: str, pid: int, stdout: IO[bytes], stderr: IO[bytes]) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self.returncode: int | None = None
        self._name = name
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """The exit code, the negative number of the signal that ended it, or None while it runs."""
        with self._lock:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
            return self.returncode

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


def may_fork(environment: Mapping[str, str]) -> bool:
    """Whether a child with this environment may be a fork: on Linux, from a single thread, with the same variables."""
    return sys.platform == "linux" and threading.active_count() == 1 and environment == os.environ


def fork_script(path: str, *arguments: str) -> Forked:
    """Runs a script of ours in a fork, in a session of its own.

    Raises:
        OSError: when there is no room for another process.
    """
    import importlib.util  # noqa: F401, PLC0415 - once, and not in every child

    out, err = os.pipe(), os.pipe()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # or the child would write it a second time
    try:
        pid = os.fork()
    except OSError:
        for descriptor in (*out, *err):
            os.close(descriptor)
        raise
    if pid == 0:
        _become(path, arguments, out[1], err[1])
    os.close(out[1])
    os.close(err[1])
    return Forked(path, pid, os.fdopen(out[0], "rb", 0), os.fdopen(err[0], "rb", 0))


def _become(path: str, arguments: tuple[str, ...], out: int, err: int) -> NoReturn:
    """In the child: runs the script and ends without whatever else this process would do at its end."""
    code = 1
    try:
        _detach(out, err)
        code = _run(path, arguments)
    finally:
        os._exit(code)


def _detach(out: int, err: int) -> None:
    os.setsid()
    for name in set(os.environ) - set(for_the_driver(os.environ)):
        del os.environ[name]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (err, 2)):
        os.dup2(source, target)
    os.closerange(3, _MOST_FILES)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - a descriptor, for good
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115 - too


def _run(path: str, arguments: tuple[str, ...]) -> int:
    sys.argv = [path, *arguments]
    try:
        _run_compiled(path)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # noqa: BLE001 - as an interpreter would: told, and exit code 1
        import traceback  # noqa: PLC0415 - of use here alone

        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _run_compiled(path: str) -> None:
    """Runs a script as the main module, from its compiled form where there is one: ``runpy`` compiles it each time.

    Raises:
        ImportError: when it is not there.
    """
    from importlib.util import module_from_spec, spec_from_file_location  # noqa: PLC0415 - is there

    spec = spec_from_file_location("__main__", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no script")
    sys.modules["__main__"] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
