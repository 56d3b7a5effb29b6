"""Children that are forks of this process: an interpreter that has been started need not be started again.

A fork is a process of its own like any other child: it may crash, hang or be killed without this one. It is made only
while this process has a single thread, and only where the child is to have this process's own environment.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping
from typing import NoReturn

from gpuenv.model.secrets import for_the_driver
from gpuenv.probe.piped import Piped

_MOST_FILES = 4096  # descriptors that a fork closes; what is above is closed on exec, and a fork executes nothing


def may_fork(environment: Mapping[str, str]) -> bool:
    """Whether a child with this environment may be a fork: on Linux, from a single thread, with the same variables."""
    return sys.platform == "linux" and threading.active_count() == 1 and environment == os.environ


def fork_script(path: str, *arguments: str, listening: bool = False) -> Piped:
    """Runs a script of ours in a fork, in a session of its own.

    Args:
        path: the script.
        arguments: of its command line.
        listening: whether it shall be told something on its standard input.

    Raises:
        OSError: when there is no room for another process.
    """
    import importlib.util  # noqa: F401, PLC0415 - once, and not in every child

    out, err, told = os.pipe(), os.pipe(), _input(listening=listening)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # or the child would write it a second time
    try:
        pid = os.fork()
    except OSError:
        for descriptor in (*out, *err, *told):
            os.close(descriptor)
        raise
    if pid == 0:
        _become(path, arguments, (told[0], out[1], err[1]))
    for descriptor in (told[0], out[1], err[1]):
        os.close(descriptor)
    return Piped(path, pid, out[0], err[0], *told[1:])


def _input(*, listening: bool) -> tuple[int, ...]:
    """What a child reads from; and the other end of it, where somebody is to write there."""
    return os.pipe() if listening else (os.open(os.devnull, os.O_RDONLY),)


def _become(path: str, arguments: tuple[str, ...], streams: tuple[int, int, int]) -> NoReturn:
    """In the child: runs the script and ends without whatever else this process would do at its end."""
    code = 1
    try:
        _detach(streams)
        code = _run(path, arguments)
    finally:
        os._exit(code)


def _detach(streams: tuple[int, int, int]) -> None:
    os.setsid()
    for name in set(os.environ) - set(for_the_driver(os.environ)):
        del os.environ[name]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    for stream, descriptor in enumerate(streams):
        os.dup2(descriptor, stream)
    os.closerange(3, _MOST_FILES)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - a descriptor, for good
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - likewise
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115 - likewise


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
