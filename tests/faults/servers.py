"""A server that spoils what a sound one would say: on a port of the loopback, or on a socket of its own."""

from __future__ import annotations

import os
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n"
LARGE = 48 * 1024 * 1024
PAUSE = 0.4  # seconds
# What is answered to the bytes of a request: pieces, and before each of them how long to wait.
Answer = Callable[[bytes], Iterator[bytes]]


class Ended(threading.Event):
    """Set when the server is shut down; whoever hangs waits for it."""


def sound(upstream: tuple[str, int], request: bytes) -> bytes:
    """What the sound server says, whole."""
    head, _, body = request.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith((b"connection:", b"accept-encoding:"))]
    with socket.create_connection(upstream, timeout=30) as other:
        other.sendall(b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n" + body)
        return b"".join(iter(lambda: other.recv(65536), b""))


def _refused(status: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


def _endless(ended: Ended) -> Iterator[bytes]:
    yield HEAD + b"\r\n"
    for number in range(LARGE // 65536):
        yield f'<a href="x{number}">x</a>'.encode() * (65536 // 20)
    ended.wait()


def _late(ended: Ended, whole: bytes) -> Iterator[bytes]:
    ended.wait(PAUSE)
    yield whole


def _never(ended: Ended, whole: bytes = b"") -> Iterator[bytes]:
    """All but the last byte, and no end."""
    yield whole[:-1]
    ended.wait()


# What is said: from what a hung one waits for, and from what the sound one says, which may not be asked.
FAULTS: dict[str, Callable[[Ended, Callable[[], bytes]], Iterator[bytes]]] = {
    "sound": lambda _, whole: iter([whole()]),
    "unreadable": lambda *_: iter([_refused("403 Forbidden")]),
    "empty: says nothing": lambda *_: iter(()),
    "empty: nothing is there": lambda *_: iter([_refused("404 Not Found")]),
    "empty: an empty page": lambda *_: iter([HEAD + b"Content-Length: 0\r\n\r\n"]),
    "rubbish": lambda *_: iter([os.urandom(4096)]),
    "rubbish: as a page": lambda *_: iter([HEAD + b"\r\n" + bytes(range(256)) * 64]),
    "huge": lambda ended, _: _endless(ended),
    "slow": lambda ended, whole: _late(ended, whole()),
    "hung": lambda ended, _: _never(ended),
    "hung: in the middle": lambda ended, whole: _never(ended, whole()),
    "dying": lambda _, whole: iter([(said := whole())[: len(said) * 2 // 3]]),
}


def spoilt(how: str, ended: Ended, answer: Callable[[bytes], bytes]) -> Answer:
    """The answers of a server of which something is wrong.

    Args:
        how: the fault.
        ended: what a hung one waits for.
        answer: what the sound one says to a request.
    """
    return lambda request: FAULTS[how](ended, lambda: answer(request))


class _Handler(socketserver.BaseRequestHandler):
    server: _Spoilt

    def handle(self) -> None:
        """One request a connection."""
        with suppress(OSError):
            request = b""
            while b"\r\n\r\n" not in request:
                chunk = self.request.recv(65536)
                if not chunk:
                    return
                request += chunk
            for piece in self.server.answer(request):
                if piece:
                    self.request.sendall(piece)
            self._drain(request)

    def _drain(self, request: bytes) -> None:
        """What else belongs to the request: a connection that is closed before it was read is reset."""
        head, _, body = request.partition(b"\r\n\r\n")
        told = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        left = int(told[0]) - len(body) if told else 0
        while left > 0 and (chunk := self.request.recv(65536)):
            left -= len(chunk)


class _Spoilt(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    allow_reuse_address = True
    answer: Answer


class _OnSocket(_Spoilt):
    address_family = socket.AF_UNIX


@contextmanager
def serving(answer: Answer, ended: Ended, path: Path | None = None) -> Iterator[str]:
    """A server while it is needed; answers its address: ``HOST:PORT``, or the socket's path."""
    made = _Spoilt(("127.0.0.1", 0), _Handler) if path is None else _OnSocket(str(path), _Handler)  # type: ignore[arg-type]
    made.answer = answer
    threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield str(path) if path is not None else f"127.0.0.1:{made.server_address[1]}"
    finally:
        ended.set()
        made.shutdown()
        made.server_close()
