"""A faulty server, on a loopback port or a Unix socket."""

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
# The answer to the bytes of a request, in pieces; the iterator waits before a late piece.
Answer = Callable[[bytes], Iterator[bytes]]


class Stopped(threading.Event):
    """Set when the server shuts down; hung answers wait for it."""


def forward(upstream: tuple[str, int], request: bytes) -> bytes:
    """The complete answer of the healthy server."""
    head, _, body = request.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith((b"connection:", b"accept-encoding:"))]
    with socket.create_connection(upstream, timeout=30) as other:
        other.sendall(b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n" + body)
        return b"".join(iter(lambda: other.recv(65536), b""))


def _refused(status: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


def _endless(stopped: Stopped) -> Iterator[bytes]:
    yield HEAD + b"\r\n"
    for number in range(LARGE // 65536):
        yield f'<a href="x{number}">x</a>'.encode() * (65536 // 20)
    stopped.wait()


def _late(stopped: Stopped, answer: bytes) -> Iterator[bytes]:
    stopped.wait(PAUSE)
    yield answer


def _never(stopped: Stopped, answer: bytes = b"") -> Iterator[bytes]:
    """All but the last byte, without closing the connection."""
    yield answer[:-1]
    stopped.wait()


# The answer by fault, from the event that ends a hung one and a function for the healthy answer.
FAULTS: dict[str, Callable[[Stopped, Callable[[], bytes]], Iterator[bytes]]] = {
    "healthy": lambda _, answer: iter([answer()]),
    "unreadable": lambda *_: iter([_refused("403 Forbidden")]),
    "empty: no answer": lambda *_: iter(()),
    "empty: not found": lambda *_: iter([_refused("404 Not Found")]),
    "empty: an empty page": lambda *_: iter([HEAD + b"Content-Length: 0\r\n\r\n"]),
    "rubbish": lambda *_: iter([os.urandom(4096)]),
    "rubbish: as a page": lambda *_: iter([HEAD + b"\r\n" + bytes(range(256)) * 64]),
    "huge": lambda stopped, _: _endless(stopped),
    "slow": lambda stopped, answer: _late(stopped, answer()),
    "hung": lambda stopped, _: _never(stopped),
    "hung: in the middle": lambda stopped, answer: _never(stopped, answer()),
    "dying": lambda _, answer: iter([(full := answer())[: len(full) * 2 // 3]]),
}


def faulty_answers(fault: str, stopped: Stopped, answer: Callable[[bytes], bytes]) -> Answer:
    """The answers of a faulty server.

    Args:
        fault: a key of ``FAULTS``.
        stopped: ends hung answers.
        answer: the healthy answer to a request.
    """
    return lambda request: FAULTS[fault](stopped, lambda: answer(request))


class _Handler(socketserver.BaseRequestHandler):
    server: _FaultyServer

    def handle(self) -> None:
        """Answer one request per connection."""
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
        """Read the rest of the request: closing a connection with unread data resets it."""
        head, _, body = request.partition(b"\r\n\r\n")
        lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        remaining = int(lengths[0]) - len(body) if lengths else 0
        while remaining > 0 and (chunk := self.request.recv(65536)):
            remaining -= len(chunk)


class _FaultyServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    allow_reuse_address = True
    answer: Answer


class _FaultyUnixServer(_FaultyServer):
    address_family = socket.AF_UNIX


@contextmanager
def serving(answer: Answer, stopped: Stopped, path: Path | None = None) -> Iterator[str]:
    """Run a server; yields its address: ``HOST:PORT``, or the path of the socket."""
    server = _FaultyServer(("127.0.0.1", 0), _Handler) if path is None else _FaultyUnixServer(str(path), _Handler)  # type: ignore[arg-type]
    server.answer = answer
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield str(path) if path is not None else f"127.0.0.1:{server.server_address[1]}"
    finally:
        stopped.set()
        server.shutdown()
        server.server_close()
