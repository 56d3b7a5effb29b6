"""Published matrices, and a web server on loopback that delivers them well or badly."""

from __future__ import annotations

import hashlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from gpuenv.model.codec import encode
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from pathlib import Path

NEWER, OLDER = "2999-01-01", "2020-01-01"
NEWEST = "14.2.0"  # the release that ``without_newest`` withdraws


def published(revision: str = NEWER, change: Callable[[dict[str, Any]], None] | None = None) -> bytes:
    """The shipped matrix as it is published, with another revision and a change."""
    data = {**encode(MATRIX), "revision": revision}
    if change is not None:
        change(data)
    return json.dumps(data, indent=2).encode()


def without_newest(data: dict[str, Any]) -> None:
    """Withdraws the newest release of every wheel line."""
    for line in data["wheel_lines"]:
        for release in line["releases"]:
            if release["cupy"] == NEWEST:
                release["yanked"] = "a test"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def digest_file(content: bytes, name: str = "matrix.json") -> bytes:
    """What sha256sum prints."""
    return f"{digest(content)}  {name}\n".encode()


def publish(folder: Path, content: bytes, name: str = "matrix.json") -> Path:
    """Writes a matrix and its digest file; returns the matrix."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.sha256").write_bytes(digest_file(content, name))
    (folder / name).write_bytes(content)
    return folder / name


@dataclass
class Site:
    """What a server has, and what it was asked.

    Attributes:
        pages: the content by path, or a function that answers.
        asked: path and authorization of each request.
        stopped: set at the end of the test; an answer that hangs waits for it.
    """

    pages: dict[str, bytes | Callable[[Handler], None]] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    def address(self, path: str = "/matrix.json", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    def publish(self, content: bytes, digest_of: bytes | None = None) -> None:
        """Publishes a matrix with the digest of this or other content."""
        self.pages["/matrix.json"] = content
        self.pages["/matrix.json.sha256"] = digest_file(content if digest_of is None else digest_of)


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    site: Site

    def do_GET(self) -> None:
        self.site.asked.append((self.path, self.headers.get("Authorization")))
        page = self.site.pages.get(self.path)
        if callable(page):
            page(self)
        else:
            self.answer(404 if page is None else 200, page or b"")

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def trickle(self, head: bytes) -> None:
        """Sends the head, and then a byte at a time without end."""
        self.wfile.write(head)
        while not self.site.stopped.wait(0.05):
            self.wfile.write(b"x")
            self.wfile.flush()

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name there
        del format, arguments


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores a client that has gone."""
        del request, client_address


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    site = Site()
    server = _Server(("127.0.0.1", 0), type("SiteHandler", (Handler,), {"site": site}))
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    site.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield site
    finally:
        site.stopped.set()
        server.shutdown()
        server.server_close()
