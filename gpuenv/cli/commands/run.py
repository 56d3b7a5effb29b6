"""``gpuenv run``: runs a program in the caller's place; its streams, signals and exit code go through untouched.

Standard input is the caller's own. Standard output and error are read through a pipe, or through a pseudo-terminal
where the caller's is a terminal, written on at once, and the beginning and the end of them are kept. Where both are the
same thing for the caller, they are for the program too, so that their order stays. The program is in the caller's
process group, so that a terminal's Ctrl-C and Ctrl-Z reach it directly.
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
from gpuenv.cli.errors import CommandError, OutputClosed, announce, complain
from gpuenv.cli.inputs import MachineSource, validate_assumptions

_HEAD, _TAIL = 1 << 18, 1 << 23  # bytes that are kept of the beginning and of the end
_PIECE = 1 << 16
_LINGERING = 0.5  # seconds that what the program left behind may go on to write before it is left alone
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126  # as a shell answers
_FORWARDED = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
_OUT, _ERR = 1, 2


def run(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND", help="The program and its arguments.")],
    python: options.Python = None,
    snapshot: options.SnapshotFile = None,
    assume: options.Assume = None,
    probe: Annotated[
        bool, typer.Option("--probe/--no-probe", help="Ask this machine, where the program's words name a cause. On.")
    ] = True,
    matrix: options.MatrixFile = None,
    no_color: options.NoColor = False,
    timeout: options.Timeout = options.TIMEOUT,
    redact: options.Redact = True,
    driver_root: options.DriverRoot = "/",
) -> None:
    """Run a program untouched, and explain its failure.

    Input, output, signals and the exit code are the program's own. Where it succeeds, nothing is added; where it
    fails, what it said is explained as gpuenv explain does, if a cause is known.

    Exit code: that of the command, as a shell tells it: 127 where there is none such, 126 where it cannot be run.
    """
    if python or snapshot or assume or matrix:  # refused where wrong, before it runs
        validate_assumptions(MachineSource(python, snapshot, assume or (), not probe, timeout, driver_root), matrix)
    status, streams = _run_through(command)
    if status:
        # The program itself where it is a Python, since that is the environment that failed.
        own = shutil.which(command[0]) if PurePath(command[0]).name.startswith("python") else None
        target = (python or own) if probe and snapshot is None else None
        subject = MachineSource(target, snapshot, assume or (), not probe and snapshot is None, timeout, driver_root)
        pieces = (piece for stream in streams for piece in stream.pieces())
        _explain(pieces, subject, matrix, color=not no_color, redacted=redact)
    if status < 0:
        _die_of(-status)
    raise typer.Exit(status)


def _explain(
    pieces: Iterable[bytes], subject: MachineSource, matrix: Path | None, *, color: bool, redacted: bool
) -> None:
    """Says what is known on standard error; whatever goes wrong with that, the program's exit code stays."""
    from gpuenv.cli.commands.explain import explained, scanned
    from gpuenv.cli.output import emit_lines
    from gpuenv.report.explanation import explanation_text

    try:
        explanation = explained(scanned(pieces), subject, matrix)
    except CommandError as error:
        announce(f"its failure cannot be explained: {error.message}")
        return
    if sys.stderr is None or not explanation.causes or explanation.is_guess:
        return
    sys.stdout, kept = sys.stderr, sys.stdout
    try:
        complain("\ngpuenv: what this failure means")
        with contextlib.suppress(CommandError, OutputClosed):  # nobody is there to read it
            emit_lines(explanation_text(explanation), None, color=color, redacted=redacted)
    finally:
        sys.stdout = kept


@dataclass(slots=True)
class _Stream:
    """One way out of the program: what it is read from, where it goes, who uses it, and what is kept of it."""

    source: int
    sink: int
    child_end: int
    terminal: bool
    head: bytearray = field(default_factory=bytearray)
    tail: deque[bytes] = field(default_factory=deque)
    kept: int = 0  # bytes in the tail

    def keep(self, data: bytes) -> None:
        """Takes the next bytes; the oldest of the end are let go."""
        room = _HEAD - len(self.head)
        self.head += data[:room]
        if len(data) > room:
            self.tail.append(data[room:])
            self.kept += len(data) - max(0, room)
        while self.kept > _TAIL:
            self.kept -= len(self.tail.popleft())

    def pieces(self) -> Iterator[bytes]:
        """What was kept; a gap between beginning and end shows as a new line, and so does the end of the stream."""
        gap = len(self.head) == _HEAD and self.kept >= _TAIL - _PIECE
        yield bytes(self.head)
        yield from (b"\n", *self.tail) if gap else self.tail
        last = self.tail[-1] if self.tail else self.head
        if last and not last.endswith(b"\n"):
            yield b"\n"  # what the next stream begins with is a line of its own


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
        _carry(process, streams)
        status = process.wait()
    return status, streams


def _die_of(number: int) -> None:
    """Ends this process by the signal that ended the program, without a second core file."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with contextlib.suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _open_streams() -> list[_Stream]:
    """One stream where output and error are the same thing for the caller, else two."""
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
        _like(sink, child_end)
    return _Stream(source, sink, child_end, terminal)


def _like(terminal: int, other: int) -> None:
    """Gives a pseudo-terminal the size of the real one, and leaves line ends to the latter."""
    import fcntl
    import termios

    with contextlib.suppress(OSError):
        size = fcntl.ioctl(terminal, termios.TIOCGWINSZ, b"\0" * 8)
        fcntl.ioctl(other, termios.TIOCSWINSZ, size)
    with contextlib.suppress(termios.error):
        modes = termios.tcgetattr(other)
        modes[1] &= ~termios.OPOST
        termios.tcsetattr(other, termios.TCSANOW, modes)


def _carry(process: subprocess.Popen[bytes], streams: Sequence[_Stream]) -> None:
    """Copies what the program writes until it has ended and its output is silent."""
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream.source, selectors.EVENT_READ, stream)
        while selector.get_map():
            # A grandchild that keeps the stream open is waited for only while it goes on to write.
            ready = selector.select(_LINGERING)
            if not ready and process.poll() is not None:
                break
            for key, _ in ready:
                if not _carry_piece(key.data):
                    selector.unregister(key.data.source)
                    os.close(key.data.source)
        for key in list(selector.get_map().values()):
            os.close(key.data.source)


def _carry_piece(stream: _Stream) -> bool:
    """Whether the stream goes on; it ends when the last writer closes, or when the caller's reader has gone."""
    try:
        data = os.read(stream.source, _PIECE)
    except OSError:  # a pseudo-terminal whose other side is closed
        return False
    if not data:
        return False
    stream.keep(data)
    return stream.sink < 0 or _written(stream.sink, data)


def _written(sink: int, data: bytes) -> bool:
    """Whether all of it was written; where it was not, closing our side tells the program that its reader has gone."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(sink, rest) :]
        except BlockingIOError:  # another holder of this end may have set it so, and a slow reader has not gone
            with selectors.DefaultSelector() as selector:
                selector.register(sink, selectors.EVENT_WRITE)
                selector.select()
        except OSError:
            return False
    return True


@contextlib.contextmanager
def _forwarding(running: list[subprocess.Popen[bytes]], terminals: Sequence[_Stream]) -> Iterator[None]:
    """Signals go to the program in ``running``, once there is one.

    Those of the terminal reach it by themselves; others are handed on.
    """

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
            _like(stream.sink, stream.source)

    handlers = {**dict.fromkeys(_FORWARDED, forward), "SIGINT": interrupt, "SIGQUIT": interrupt, "SIGWINCH": resize}
    former = {}
    for name, handler in handlers.items():
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            former[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, before in former.items():
            signal.signal(number, before)


def _in_foreground() -> bool:
    """Whether a terminal has just sent its signal to the program as well."""
    for number in (0, _OUT, _ERR):
        try:
            return os.tcgetpgrp(number) == os.getpgrp()
        except (OSError, AttributeError):
            continue
    return False
