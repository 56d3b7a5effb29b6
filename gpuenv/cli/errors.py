"""What ends a command early, and what is written to standard error."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import parse_integer, sanitize

if TYPE_CHECKING:
    from gpuenv.cli.output import Output

_NARROWEST, _USUAL = 40, 80  # columns
_NO_RESULT = (ExitCode.USAGE, ExitCode.MATRIX_INVALID)  # the command was not understood, and has not begun
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
_SLOW_READER = "characters_written"  # what only the error of a full pipe has
_NO_ROOM = "failed to map segment from shared object"  # glibc, elf/dl-load.c


class CommandError(Exception):
    """Ends the command with an exit code of the contract; ``remedy`` is printed on a line of its own."""

    def __init__(self, exit_code: int, message: str, remedy: str | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.message = message
        self.remedy = remedy


@contextlib.contextmanager
def usage_errors(*kinds: type[Exception]) -> Iterator[None]:
    """Makes usage errors of exceptions of these kinds.

    Raises:
        CommandError: with the message of the exception.
    """
    try:
        yield
    except kinds as error:
        raise CommandError(ExitCode.USAGE, str(error)) from error


class OutputClosed(Exception):  # noqa: N818 - it is no error of ours
    """The reader of standard output has gone; not a BrokenPipeError, which click would end with a verdict's code."""


def complain(text: str) -> None:
    """Writes lines to standard error, where there is one, without control characters and secrets."""
    if sys.stderr is None:
        return
    from gpuenv.model.secrets import hide_secrets

    shown = "\n".join(sanitize(hide_secrets(line)) for line in text.expandtabs().replace("\r\n", "\n").split("\n"))
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(shown + "\n")
        sys.stderr.flush()


def announce(text: str) -> None:
    """Writes a message to standard error."""
    complain(folded(f"gpuenv: {text}"))


def folded(text: str) -> str:
    """The text in lines that fit a terminal, unchanged where there is none; a path or a command is never cut in two."""
    if sys.stderr is None or not sys.stderr.isatty():
        return text
    import textwrap

    width = max(_NARROWEST, columns() - 1)
    whole = textwrap.TextWrapper(width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(line if len(line) <= width else whole.fill(line) for line in text.split("\n"))


def columns() -> int:
    """The width of the terminal on standard error; ``shutil`` has that of standard output, which may be a file."""
    width = parse_integer(os.environ.get("COLUMNS", ""))
    try:
        return width or os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL
    except (OSError, ValueError):
        return _USUAL


def drop_stdout() -> None:
    """Discards what is still buffered for standard output, so that nothing is said of it at interpreter exit."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def with_stand(message: str, stand: str) -> str:
    """A message whose first sentence ends in how things stand now."""
    first, *rest = message.split("\n", 1)
    return "\n".join([f"{first.rstrip('.')}; {stand}" if stand else first, *rest])


@contextlib.contextmanager
def failure_as_result(out: Output, record: Callable[[CommandError], object]) -> Iterator[None]:
    """Where JSON is the output, a command that ends early in here prints a record of that."""
    try:
        yield
    except CommandError as error:
        if out.as_json and error.exit_code not in _NO_RESULT:
            out.emit(record(error), tuple)
        raise


def as_shortage(error: Exception) -> CommandError | None:
    """The message for an error that is a lack of processes, threads, files or memory; None for any other error."""
    found = None
    if isinstance(error, MemoryError) or (isinstance(error, ImportError) and _NO_ROOM in str(error)):
        found = _MEMORY
    elif isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        found = _PROCESSES
    elif isinstance(error, OSError) and not (isinstance(error, BlockingIOError) and hasattr(error, _SLOW_READER)):
        found = _BY_NUMBER.get(error.errno or 0)
    if found is None:
        return None
    what, remedy = found
    why = f": {error}" if str(error) else ""
    return CommandError(ExitCode.COULD_NOT_CHECK, f"{what}, so that gpuenv cannot work here{why}", remedy)
