"""``gpuenv run``: runs a program and passes its streams, signals and exit code through unchanged.

Standard input is inherited. Standard output and error are read through a pipe, or a pseudo-terminal if the caller's is
a terminal, and forwarded at once; their beginning and end are kept. If both are the same file for the caller, the
program gets one stream too, which preserves the order. The program stays in the caller's process group, so a terminal's
Ctrl-C and Ctrl-Z reach it directly.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from types import FrameType
from typing import Annotated

import typer

from gpuenv.cli import options
from gpuenv.cli.command_errors import CommandError, OutputClosed, complain
from gpuenv.cli.sources import MachineSource, validate_options
from gpuenv.model.strings import Lines

_HEAD, _TAIL = 1 << 18, 1 << 23  # bytes that are kept of the beginning and of the end
_CHUNK = 1 << 16
_LINGERING = 0.5  # seconds without output after which descendants of the program are abandoned
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126  # as a shell answers
_FORWARDED = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
_OUT, _ERR = 1, 2


def run(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND", help="The program and its arguments.")],
    python: options.Python = None,
    snapshot: options.SnapshotFile = None,
    assume: options.Assume = None,
    probe: Annotated[
        bool, typer.Option("--probe/--no-probe", help="Probe this machine if the output names a cause. On by default.")
    ] = True,
    matrix: options.MatrixFile = None,
    no_color: options.NoColor = False,
    timeout: options.Timeout = options.TIMEOUT,
    redact: options.Redact = True,
    driver_root: options.DriverRoot = "/",
) -> None:
    """Run a program, and explain its failure.

    Input, output, signals and the exit code are those of the program. If it fails and its output has a known cause,
    the explanation of gpuenv explain follows on standard error.

    Exit code: that of the command, as in a shell: 127 if it is not found, 126 if it cannot be run.
    """
    if python or snapshot or assume or matrix:  # report errors before the program runs
        validate_options(MachineSource(python, snapshot, assume or (), not probe, timeout, driver_root), matrix)
    status, streams = _run_through(command)
    if status:
        # A Python program is the environment that failed.
        interpreter = shutil.which(command[0]) if PurePath(command[0]).name.startswith("python") else None
        target = (python or interpreter) if probe and snapshot is None else None
        source = MachineSource(target, snapshot, assume or (), not probe and snapshot is None, timeout, driver_root)
        chunks = (chunk for stream in streams for chunk in stream.chunks())
        _explain(chunks, source, matrix, color=not no_color, redacted=redact)
    if status < 0:
        _reraise_signal(-status)
    raise typer.Exit(status)


def _explain(
    chunks: Iterable[bytes], source: MachineSource, matrix: Path | None, *, color: bool, redacted: bool
) -> None:
    """Writes the explanation to standard error; no error here changes the program's exit code."""
    from gpuenv.cli.explanation import explain_text
    from gpuenv.cli.main import search_own_path
    from gpuenv.cli.output import emit_lines
    from gpuenv.paste.error_text import scan_text
    from gpuenv.report.explanation import explanation_text

    search_own_path(lambda _: None)
    try:
        explanation = explain_text(scan_text(chunks), source, matrix)
    except CommandError as error:
        complain(error.message, before="gpuenv: cannot explain the failure: ", wrap=True)
        return
    if sys.stderr is None or not explanation.causes:
        return
    sys.stdout, stdout = sys.stderr, sys.stdout
    try:
        complain(Lines(("", "gpuenv: what this failure means")))
        with contextlib.suppress(CommandError, OutputClosed):  # the reader has gone
            emit_lines(explanation_text(explanation), None, color=color, redacted=redacted)
    finally:
        sys.stdout = stdout


@dataclass(slots=True)
class _Stream:
    """An output stream of the program: the ends of its pipe, where it is forwarded, and the kept bytes."""

    source: int
    sink: int
    child_end: int
    terminal: bool
    head: bytearray = field(default_factory=bytearray)
    tail: deque[bytes] = field(default_factory=deque)
    kept: int = 0  # bytes in the tail

    def keep(self, data: bytes) -> None:
        """Appends bytes; drops the oldest of the tail beyond its limit."""
        room = _HEAD - len(self.head)
        self.head += data[:room]
        if len(data) > room:
            self.tail.append(data[room:])
            self.kept += len(data) - max(0, room)
        while self.kept > _TAIL:
            self.kept -= len(self.tail.popleft())

    def chunks(self) -> Iterator[bytes]:
        """The kept bytes; a line break marks a gap between head and tail, and the end of the stream."""
        gap = len(self.head) == _HEAD and self.kept >= _TAIL - _CHUNK
        yield bytes(self.head)
        yield from (b"\n", *self.tail) if gap else self.tail
        last = self.tail[-1] if self.tail else self.head
        if last and not last.endswith(b"\n"):
            yield b"\n"  # the next stream begins on a new line


def _run_through(command: Sequence[str]) -> tuple[int, Sequence[_Stream]]:
    """Runs a program to its end; returns its exit status, negative for a signal, and its streams.

    Raises:
        CommandError: when it cannot be started, with the exit code of a shell: 127 not found, 126 not executable.
    """
    streams = _open_streams()
    by_number = {_OUT: streams[0], _ERR: streams[-1]}
    running: list[subprocess.Popen[bytes]] = []
    with _forwarding(running, [stream for stream in streams if stream.terminal]):
        try:
            process = subprocess.Popen(command, stdout=by_number[_OUT].child_end, stderr=by_number[_ERR].child_end)
        except OSError as error:
            for stream in streams:
                os.close(stream.source)
                os.close(stream.child_end)
            code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
            raise CommandError(code, f"{command[0]}: cannot be run: {error.strerror or error}") from error
        running.append(process)
        for stream in streams:
            os.close(stream.child_end)
        _forward_output(process, streams)
        status = process.wait()
    return status, streams


def _reraise_signal(number: int) -> None:
    """Kills this process with the program's signal, without a second core file."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with contextlib.suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _open_streams() -> list[_Stream]:
    """One stream if output and error are the same file for the caller, else two."""
    if _is_open(_OUT) and _is_open(_ERR) and os.path.samestat(os.fstat(_OUT), os.fstat(_ERR)):
        return [_open_stream(_ERR)]
    return [_open_stream(_OUT), _open_stream(_ERR)]


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _open_stream(number: int) -> _Stream:
    sink = number if _is_open(number) else -1
    terminal = sink >= 0 and os.isatty(sink) and sys.platform != "win32"
    source, child_end = os.openpty() if terminal else os.pipe()
    if terminal:
        _copy_terminal_settings(sink, child_end)
    return _Stream(source, sink, child_end, terminal)


def _copy_terminal_settings(terminal: int, other: int) -> None:
    """Copies the size of the terminal to a pseudo-terminal, and leaves line ends to the former."""
    import fcntl
    import termios

    with contextlib.suppress(OSError):
        size = fcntl.ioctl(terminal, termios.TIOCGWINSZ, b"\0" * 8)
        fcntl.ioctl(other, termios.TIOCSWINSZ, size)
    with contextlib.suppress(termios.error):
        modes = termios.tcgetattr(other)
        modes[1] &= ~termios.OPOST
        termios.tcsetattr(other, termios.TCSANOW, modes)


def _forward_output(process: subprocess.Popen[bytes], streams: Sequence[_Stream]) -> None:
    """Forwards output until the program has ended and nothing more is written."""
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream.source, selectors.EVENT_READ, stream)
        while selector.get_map():
            # A grandchild may keep the stream open: it is waited for only while it writes.
            ready = selector.select(_LINGERING)
            if not ready and process.poll() is not None:
                break
            for key, _ in ready:
                if not _forward_chunk(key.data):
                    selector.unregister(key.data.source)
                    os.close(key.data.source)
        for key in list(selector.get_map().values()):
            os.close(key.data.source)


def _forward_chunk(stream: _Stream) -> bool:
    """Forwards a chunk; False once the last writer has closed it, or the caller's reader has gone."""
    try:
        data = os.read(stream.source, _CHUNK)
    except OSError:  # a pseudo-terminal whose other side is closed
        return False
    if not data:
        return False
    stream.keep(data)
    return stream.sink < 0 or _written(stream.sink, data)


def _written(sink: int, data: bytes) -> bool:
    """Writes all of it; False if the reader has gone, so that closing our end lets the program notice."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(sink, rest) :]
        except BlockingIOError:  # another holder of this descriptor made it non-blocking; a slow reader has not gone
            with selectors.DefaultSelector() as selector:
                selector.register(sink, selectors.EVENT_WRITE)
                selector.select()
        except OSError:
            return False
    return True


@contextlib.contextmanager
def _forwarding(running: list[subprocess.Popen[bytes]], terminals: Sequence[_Stream]) -> Iterator[None]:
    """Forwards signals to the program in ``running``, once there is one; those of a terminal reach it directly."""

    def forward(number: int, frame: FrameType | None) -> None:
        del frame
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not _in_foreground():
            forward(number, frame)

    def resize(number: int, frame: FrameType | None) -> None:
        del number, frame
        for stream in terminals if running else ():
            _copy_terminal_settings(stream.sink, stream.source)

    handlers = {**dict.fromkeys(_FORWARDED, forward), "SIGINT": interrupt, "SIGQUIT": interrupt, "SIGWINCH": resize}
    former = {}
    for name, handler in handlers.items():
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            former[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, previous in former.items():
            signal.signal(number, previous)


def _in_foreground() -> bool:
    """Whether a terminal sends its signals to the program as well."""
    for number in (0, _OUT, _ERR):
        try:
            return os.tcgetpgrp(number) == os.getpgrp()
        except (OSError, AttributeError):
            continue
    return False
