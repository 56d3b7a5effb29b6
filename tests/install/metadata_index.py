"""The metadata of wheels on the package index, and that index with it, so that resolving downloads no wheels.

Not every mirror has metadata next to its wheels (PEP 658); without it, pip downloads each wheel that it considers.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import threading
import zipfile
from functools import cache
from http import HTTPStatus
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, unquote
from urllib.request import Request, urlopen

_CACHE = Path(__file__).parents[2] / ".cache/metadata"
_JSON = "application/vnd.pypi.simple.v1+json"
_BLOCK = 256 * 1024
_SECONDS = 120.0


def _opened(url: str, **headers: str) -> HTTPResponse:
    answer: HTTPResponse = urlopen(Request(url, headers=headers), timeout=_SECONDS)  # noqa: S310 - the index's
    return answer


class _RemoteFile(io.RawIOBase):
    """A file behind a URL, read by ranges."""

    def __init__(self, url: str) -> None:
        self._url, self._position = url, 0
        with _opened(url, Range="bytes=0-0") as answer:
            self._size = int(answer.headers["Content-Range"].rpartition("/")[2])

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        return self._position

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - a writable buffer
        end = min(self._position + len(buffer), self._size)
        if end <= self._position:
            return 0
        with _opened(self._url, Range=f"bytes={self._position}-{end - 1}") as answer:
            content = answer.read()
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)


def wheel_metadata(url: str) -> str:
    """Reads the METADATA of a wheel; downloads only a small part of it."""
    kept = _CACHE / f"{hashlib.sha256(url.encode()).hexdigest()}.txt"
    if kept.exists():
        return kept.read_text(encoding="utf-8")
    with zipfile.ZipFile(io.BufferedReader(_RemoteFile(url), _BLOCK)) as wheel:
        name = next(name for name in wheel.namelist() if name.count("/") == 1 and name.endswith(".dist-info/METADATA"))
        text = wheel.read(name).decode()
    kept.parent.mkdir(parents=True, exist_ok=True)
    part = kept.with_suffix(f".{threading.get_ident()}")
    part.write_text(text, encoding="utf-8")
    part.replace(kept)
    return text


@cache
def upstream() -> str:
    """Returns the address of the package index in use, as uv prints it."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--emit-index-url", "-"]
    printed = subprocess.run(command, input="", capture_output=True, text=True, check=True).stdout
    return next(line.split()[1] for line in printed.splitlines() if line.startswith("--index-url"))


class MetadataIndex:
    """The package index over HTTP on this machine, with metadata for every wheel; wheels come from the original."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def variables(self) -> dict[str, str]:
        """Returns variables that make pip use it, and nothing else."""
        address = f"http://127.0.0.1:{self._server.server_address[1]}/simple"
        return {"PIP_INDEX_URL": address, "PIP_CONFIG_FILE": "/dev/null"}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@cache
def _page(name: str) -> bytes | None:
    """Returns the page of a distribution, with this server's address and metadata for each wheel."""
    try:
        with _opened(f"{upstream()}/{name}/", Accept=_JSON) as answer:
            page = json.load(answer)
    except HTTPError as error:
        if error.code == HTTPStatus.NOT_FOUND:
            return None
        raise
    for file in page["files"]:
        file["url"] = f"/files/{quote(file['url'], safe='')}/{quote(file['filename'])}"
        file["core-metadata"] = file["filename"].endswith(".whl")
    return json.dumps(page).encode()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        kind, _, rest = self.path.removeprefix("/").partition("/")
        if kind == "simple":
            self._send(_page(rest.strip("/")), _JSON)
            return
        url = unquote(rest.rpartition("/")[0])
        if rest.endswith(".metadata"):
            self._send(wheel_metadata(url).encode(), "text/plain")
        else:
            self.send_response(HTTPStatus.FOUND)
            self.send_header("Location", url)
            self.end_headers()

    def _send(self, content: bytes | None, kind: str) -> None:
        if content is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        del arguments
