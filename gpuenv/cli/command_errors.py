"""Errors that end a command, and messages on standard error."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import Lines, lines_of, parse_integer, sanitize_line

if TYPE_CHECKING:
    from gpuenv.cli.output import Output

QUIET = "GPUENV_QUIET"  # the variable of --quiet
_MIN_WIDTH, _DEFAULT_WIDTH = 40, 80  # columns
_NO_RESULT = (ExitCode.USAGE, ExitCode.MATRIX_INVALID)  # the command has not begun
_PROCESSES = (
    "no more processes or threads can be started",
    "Raise the limit of the user (ulimit -u; also ulimit -v) or container (--pids-limit), or stop other programs.",
)
_FILES = ("no more files can be opened", "Raise the limit of open files: ulimit -n 1024.")
_MEMORY = (
    "out of memory",
    "Raise the limit (ulimit -v, a container's --memory, the scheduler's), or stop other programs.",
)
_BY_NUMBER = {  # fork(2), open(2), mmap(2)
    errno.EAGAIN: _PROCESSES,
    errno.EMFILE: _FILES,
    errno.ENFILE: _FILES,
    errno.ENOMEM: _MEMORY,
}
_NO_THREAD = "can't start new thread"  # CPython, Modules/_threadmodule.c, thread_PyThread_start_new_thread
_SLOW_READER = "characters_written"  # attribute of the error for a full pipe
_NO_ROOM = "failed to map segment from shared object"  # glibc, elf/dl-load.c


class CommandError(Exception):
    """Ends the command with an exit code; ``remedy`` is printed on a separate line."""

    def __init__(self, exit_code: int, message: str, remedy: str | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.message = message
        self.remedy = remedy


@contextlib.contextmanager
def usage_errors(*exceptions: type[Exception]) -> Iterator[None]:
    """Turns these exceptions into usage errors.

    Raises:
        CommandError: with the message of the exception.
    """
    try:
        yield
    except exceptions as error:
        raise CommandError(ExitCode.USAGE, str(error), getattr(error, "remedy", None)) from error


def working_folder(remedy: str) -> Path:
    """The working folder.

    Raises:
        CommandError: when it has been removed.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"the working folder: {error.strerror or error}", remedy) from error


def removed_folder_error(error: Exception) -> CommandError | None:
    """The command error for a path that is relative to a removed working folder; None for any other error."""
    if isinstance(error, FileNotFoundError) and error.filename is None:  # as os.getcwd raises it
        try:
            working_folder("Change to a folder that exists.")
        except CommandError as removed:
            return removed
    return None


def extra_command(extra: str, prefix: str = sys.prefix, python: str = sys.executable) -> str:
    """The command that adds an extra to gpuenv where it is installed: by uv tool, by pipx, or in any environment."""
    import importlib.util
    import shlex

    requirement = shlex.quote(f"gpuenv[{extra}]")
    if os.path.exists(os.path.join(prefix, "uv-receipt.toml")):  # noqa: PTH110, PTH118 - as uv tool install writes it
        return f"uv tool install {requirement}"
    if os.path.exists(os.path.join(prefix, "pipx_metadata.json")):  # noqa: PTH110, PTH118 - as pipx install writes it
        return f"pipx install --force {requirement}"
    interpreter = shlex.quote(python)
    if importlib.util.find_spec("pip") is None:
        return f"uv pip install --python {interpreter} {requirement}"
    return f"{interpreter} -m pip install {requirement}"


class OutputClosed(Exception):  # noqa: N818 - not an error of gpuenv
    """The reader of standard output has gone; not a BrokenPipeError, for which click exits with code 1."""


def complain(text: str, *, before: str = "", wrap: bool = False) -> None:
    """Writes a line, or ``Lines``, to standard error, if open, without control characters, commands and secrets.

    With ``wrap``, lines are wrapped to the width of the terminal, if any; a path or a command is never broken.
    """
    if sys.stderr is None:
        return
    from gpuenv.model.redaction import hide_in_lines

    hidden = hide_in_lines(f"{before}{text}".expandtabs().replace("\r\n", "\n").split("\n"))
    lines = [sanitize_line(line) for line in (hidden if isinstance(text, Lines) else ["\n".join(hidden)])]
    if wrap and sys.stderr.isatty():
        lines = _wrapped(lines)
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write("".join(f"{sanitize_line(line)}\n" for line in lines))
        sys.stderr.flush()


def announce(text: str) -> None:
    """Writes a message of gpuenv to standard error."""
    complain(text, before="gpuenv: ", wrap=True)


def is_quiet() -> bool:
    """Whether the user wants no progress (``--quiet``)."""
    return bool(os.environ.get(QUIET))


def progress(text: str) -> None:
    """Announces that work goes on, which ``--quiet`` hides: no warning, and no result."""
    if not is_quiet():
        announce(text)


@functools.cache
def announce_once(text: str) -> None:
    """Writes a message unless this process has written it before."""
    announce(text)


def _wrapped(lines: Iterable[str]) -> list[str]:
    import textwrap

    width = max(_MIN_WIDTH, columns() - 1)
    wrapper = textwrap.TextWrapper(width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [row for line in lines for row in ([line] if len(line) <= width else wrapper.wrap(line))]


def columns() -> int:
    """The width of the terminal on standard error; ``shutil`` looks at standard output, which may be a file."""
    width = parse_integer(os.environ.get("COLUMNS", ""))
    try:
        return width or os.get_terminal_size(sys.stderr.fileno()).columns or _DEFAULT_WIDTH
    except (OSError, ValueError):
        return _DEFAULT_WIDTH


def drop_stdout() -> None:
    """Discards the buffer of standard output, so that the interpreter reports no error at exit."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def with_state(message: str, state: str) -> str:
    """Appends the resulting state to the first line of a message."""
    first, *rest = lines_of(message)
    return Lines([f"{first.rstrip('.')}; {state}" if state else first, *rest])


@contextlib.contextmanager
def failure_as_result(out: Output, record: Callable[[CommandError], object]) -> Iterator[None]:
    """If the output is JSON, prints a record of an error that ends the command in this context."""
    try:
        yield
    except CommandError as error:
        if out.as_json and error.exit_code not in _NO_RESULT:
            out.emit(record(error), tuple)
        raise


def resource_error(error: Exception) -> CommandError | None:
    """The command error for a lack of processes, threads, files or memory; None for any other error."""
    found = None
    if isinstance(error, MemoryError) or (isinstance(error, ImportError) and _NO_ROOM in str(error)):
        found = _MEMORY
    elif isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        found = _PROCESSES
    elif isinstance(error, OSError) and not (isinstance(error, BlockingIOError) and hasattr(error, _SLOW_READER)):
        found = _BY_NUMBER.get(error.errno or 0)
    if found is None:
        return None
    message, remedy = found
    reason = f": {error}" if str(error) else ""
    return CommandError(ExitCode.COULD_NOT_CHECK, f"{message}; gpuenv cannot run{reason}", remedy)
