"""A registry on loopback that answers correctly, or fails in one of the ways in which registries fail."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from tests.image.layouts import OCI_INDEX, OCI_MANIFEST, Made, blobs, digest, index, manifest

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Served:
    """The content of a registry, and its requests.

    Attributes:
        pieces: by path below /v2/REPOSITORY/.
        respond: answers a request in another way and returns true; else the correct answer is sent.
        requests: path and authorization of every request.
    """

    pieces: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    respond: Callable[[Handler], bool] | None = None
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    port: int = 0

    @property
    def name(self) -> str:
        return f"127.0.0.1:{self.port}/team/image:1"


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server

    def do_GET(self) -> None:
        served = self.server.served
        served.requests.append((self.path, self.headers.get("Authorization")))
        if served.respond is not None and served.respond(self):
            return
        found = served.pieces.get(self.path.partition("/team/image/")[2])
        if found is None:
            error = {"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}
            self.answer(404, json.dumps(error).encode())
        else:
            self.answer(200, found[1], {"Content-Type": found[0]})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", "0"))
        self.path += "#" + self.rfile.read(length).decode()
        self.do_GET()

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Sends a whole answer."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name there
        del format, arguments


class Server(ThreadingHTTPServer):
    """A server with what it serves."""

    daemon_threads = True
    served: Served

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores a client that has closed its connection."""
        del request, client_address


@contextmanager
def serving(
    *images: Made,
    docker: bool = False,
    attested: bool = False,
    tls: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
) -> Iterator[Served]:
    """A registry with one repository: an index for several images, a manifest for one."""
    served = Served()
    several = len(images) > 1 or attested
    whole = index(images, docker=docker, attested=attested) if several else manifest(images[0], docker=docker)
    kind = OCI_INDEX if several else OCI_MANIFEST
    served.pieces = {f"manifests/{tag}": (kind, whole) for tag in ("1", digest(whole))}
    for name, data in blobs(images, docker=docker).items():
        served.pieces[f"blobs/{name}"] = ("application/octet-stream", data)
        served.pieces[f"manifests/{name}"] = (OCI_MANIFEST, data)
    server = Server((host, 0), Handler)
    server.served = served
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    served.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()


def with_token(user: str, secret: str, served: Served, token: str = "t0ken") -> Callable[[Handler], bool]:  # noqa: S107 - a test
    """Requires a token for every request, and gives it to one user."""
    wanted = "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()

    def respond(handler: Handler) -> bool:
        if handler.path.startswith("/token"):
            ok = handler.headers.get("Authorization") == wanted
            handler.answer(200 if ok else 401, json.dumps({"token": token} if ok else {}).encode())
            return True
        if handler.headers.get("Authorization") == f"Bearer {token}":
            return False
        realm = f'Bearer realm="http://127.0.0.1:{served.port}/token",service="loop",scope="repository:team/image:pull"'
        handler.answer(401, b"{}", {"WWW-Authenticate": realm})
        return True

    return respond


def silent(seconds: float) -> Callable[[Handler], bool]:
    """Takes the request and sends no answer."""

    def respond(handler: Handler) -> bool:
        del handler
        time.sleep(seconds)
        return True

    return respond


def trickling(seconds: float) -> Callable[[Handler], bool]:
    """Sends a byte now and then, so that no single wait is long."""

    def respond(handler: Handler) -> bool:
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.1)
        return True

    return respond
