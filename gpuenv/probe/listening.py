"""Hears what a child says, into bounded memory, until it ends.

On Linux the caller's own thread watches both pipes and the end together; elsewhere a thread reads each pipe. Neither a
flood nor a grandchild that keeps a pipe open can hold the caller.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable
from typing import IO, Protocol

_LIMIT = 4 * 1024 * 1024  # bytes of a stream that are kept
_CHUNK = 65536
_LONGEST = 60.0  # seconds of one look: the kernel counts milliseconds in an int
_MOMENT = 0.01  # seconds between two looks, where the kernel cannot tell of an end

Heard = Callable[[str], None]


class Process(Protocol):
    """What is asked of a child that was started; a ``subprocess.Popen`` is one."""

    pid: int
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """The exit code; ``TimeoutExpired`` where there is none after so many seconds."""
        ...

    def kill(self) -> None:
        """Ends it."""
        ...


class Listener(Protocol):
    """Both streams of a child, and its end."""

    def await_exit(self, seconds: float) -> bool:
        """Waits until the child has ended; False where it has not after so many seconds."""
        ...

    def await_words(self, words: bytes, seconds: float) -> bool:
        """Waits until it has said these words; False where it has ended without, or has not after so many seconds."""
        ...

    def finish(self, seconds: float) -> bool:
        """Waits until both streams have ended; False where somebody still holds one after so many seconds."""
        ...

    def texts(self) -> tuple[str, str]:
        """What was said on standard output and on standard error."""
        ...

    def close(self) -> None:
        """Listens no longer."""
        ...


def listen(process: Process, heard: Heard | None = None) -> Listener:
    """Begins to listen to a child that was started with pipes.

    Args:
        process: the child.
        heard: told what it writes to standard error, as it comes.
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # another system, or a Linux before 5.3
        return ThreadedListener(process, heard)
    return PollingListener(process, descriptor, heard)


class _Stream:
    """The beginning of what comes through a pipe; the rest is read and dropped."""

    def __init__(self, pipe: IO[bytes] | None, heard: Heard | None = None) -> None:
        assert pipe is not None  # noqa: S101 - for the type checker
        self.pipe = pipe
        self._heard = heard
        self._kept = bytearray()
        self._sought = 0  # bytes in which the words that somebody waits for are not

    def read(self) -> bool:
        """Waits for a piece and takes it; False at the end."""
        try:
            chunk = os.read(self.pipe.fileno(), _CHUNK)
        except (OSError, ValueError):
            return False
        self._kept += chunk[: _LIMIT - len(self._kept)]
        if chunk and self._heard is not None:
            self._heard(chunk.decode("utf-8", "replace"))
        return bool(chunk)

    def has(self, words: bytes) -> bool:
        """Whether these words have come; asked again and again for the same ones."""
        place = self._kept.find(words, self._sought)
        self._sought = max(0, len(self._kept) - len(words)) if place < 0 else place
        return place >= 0

    def text(self) -> str:
        return bytes(self._kept).decode("utf-8", "replace")


class PollingListener:
    """One thread for all: the kernel tells which pipe has something, and that the child has ended."""

    def __init__(self, process: Process, ended: int, heard: Heard | None) -> None:
        self._process = process
        self._ended = ended
        self._out, self._err = _Stream(process.stdout), _Stream(process.stderr, heard)
        self._open = {stream.pipe.fileno(): stream for stream in (self._out, self._err)}
        self._poll = select.poll()
        for descriptor in (ended, *self._open):
            self._poll.register(descriptor, select.POLLIN)

    def await_exit(self, seconds: float) -> bool:
        """Waits until the child has ended."""
        self._listen(seconds, lambda: self._process.poll() is not None)
        return self._process.poll() is not None

    def await_words(self, words: bytes, seconds: float) -> bool:
        """Waits until it has said these words."""
        self._listen(seconds, lambda: self._out.has(words) or self._process.poll() is not None)
        return self._out.has(words)

    def finish(self, seconds: float) -> bool:
        """Waits until both streams have ended."""
        self._forget(self._ended)  # it would be told again and again
        self._listen(seconds, lambda: not self._open)
        return not self._open

    def texts(self) -> tuple[str, str]:
        """What was said."""
        return self._out.text(), self._err.text()

    def close(self) -> None:
        """Closes both pipes."""
        self._forget(self._ended)
        os.close(self._ended)
        self._out.pipe.close()
        self._err.pipe.close()

    def _listen(self, seconds: float, enough: Callable[[], bool]) -> None:
        """Takes what comes until it is enough, or the time is over."""
        until = time.monotonic() + seconds
        over = False
        while not over and not enough():
            left = until - time.monotonic()
            over = left <= 0
            for descriptor, _ in self._poll.poll(min(max(0.0, left), _LONGEST) * 1000):
                stream = self._open.get(descriptor)
                if stream is not None and not stream.read():
                    del self._open[descriptor]
                    self._forget(descriptor)

    def _forget(self, descriptor: int) -> None:
        with contextlib.suppress(KeyError):
            self._poll.unregister(descriptor)


class ThreadedListener:
    """A thread for each pipe, where the system cannot watch pipes and the end of a process together."""

    def __init__(self, process: Process, heard: Heard | None) -> None:
        self._process = process
        self._out, self._err = _Stream(process.stdout), _Stream(process.stderr, heard)
        self._readers = [threading.Thread(target=_read_all, args=(s,), daemon=True) for s in (self._out, self._err)]
        for reader in self._readers:
            reader.start()

    def await_exit(self, seconds: float) -> bool:
        """Waits until the child has ended."""
        until = time.monotonic() + seconds
        while self._process.poll() is None:
            if time.monotonic() >= until:
                return False
            time.sleep(_MOMENT)
        return True

    def await_words(self, words: bytes, seconds: float) -> bool:
        """Waits until it has said these words."""
        until = time.monotonic() + seconds
        while not self._out.has(words) and self._process.poll() is None and time.monotonic() < until:
            time.sleep(_MOMENT)
        return self._out.has(words)

    def finish(self, seconds: float) -> bool:
        """Waits until both streams have ended."""
        for reader in self._readers:
            reader.join(seconds)
        return not any(reader.is_alive() for reader in self._readers)

    def texts(self) -> tuple[str, str]:
        """What was said."""
        return self._out.text(), self._err.text()

    def close(self) -> None:
        """A thread that still reads closes its pipe itself, once that ends."""


def _read_all(stream: _Stream) -> None:
    with contextlib.suppress(OSError), stream.pipe:
        while stream.read():
            pass
