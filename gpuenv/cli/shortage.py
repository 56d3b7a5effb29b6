"""What ends a command for want of processes, threads, files or memory: no fault of gpuenv's, nor a verdict."""

from __future__ import annotations

import errno

from gpuenv.cli.errors import CommandError
from gpuenv.model.exit_codes import ExitCode

_PROCESSES = (
    "no further process or thread may be started",
    "Raise the limit of this user (ulimit -u; ulimit -v too) or container (--pids-limit), or end what else runs there.",
)
_FILES = ("no further file may be opened", "Raise the limit of open files: ulimit -n 1024.")
_MEMORY = (
    "there is no memory left",
    "Raise the limit (ulimit -v, a container's --memory, the scheduler's), or end what else runs there.",
)
_BY_NUMBER = {  # fork(2), open(2), mmap(2)
    errno.EAGAIN: _PROCESSES,
    errno.EMFILE: _FILES,
    errno.ENFILE: _FILES,
    errno.ENOMEM: _MEMORY,
}
_NO_THREAD = "can't start new thread"  # CPython, Modules/_threadmodule.c, thread_PyThread_start_new_thread
_NO_ROOM = "failed to map segment from shared object"  # glibc, elf/dl-load.c


def as_shortage(error: Exception) -> CommandError | None:
    """What to tell instead, where an error is the machine's refusal of what every program needs; else None."""
    told = _shortage(error)
    if told is None:
        return None
    what, remedy = told
    why = f": {error}" if str(error) else ""
    return CommandError(ExitCode.COULD_NOT_CHECK, f"{what}, so that gpuenv cannot work here{why}", remedy)


def _shortage(error: Exception) -> tuple[str, str] | None:
    if isinstance(error, MemoryError) or (isinstance(error, ImportError) and _NO_ROOM in str(error)):
        return _MEMORY
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        return _PROCESSES
    written = isinstance(error, BlockingIOError) and hasattr(error, "characters_written")  # a reader that is slow
    return _BY_NUMBER.get(error.errno or 0) if isinstance(error, OSError) and not written else None
