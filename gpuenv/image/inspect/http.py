"""One request to a registry over HTTP: bounded in size and in time, and no secret follows a redirect elsewhere.

The standard library, not requests: gpuenv has that only with its extra for engines, and an image is to be judged
without one. urllib honours the proxy variables and takes the system's certificates (SSL_CERT_FILE names others).
"""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from functools import lru_cache
from http.client import HTTPMessage
from ipaddress import ip_address
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from gpuenv import __version__
from gpuenv.image.inspect.image_facts import ImageError

_AGENT = f"gpuenv/{__version__}"
_MOST_REDIRECTS = 5
_CHUNK = 65536
_NO_TLS = (
    "a registry without TLS is used on this machine alone; have the engine pull it (insecure-registries in its "
    "daemon.json), then --from engine"
)


@dataclass(frozen=True, slots=True)
class RegistryRequest:
    """A request.

    Attributes:
        url: where.
        headers: without the authorization.
        authorization: sent only to the origin of the URL.
        body: for a form that is posted.
        most: bytes of an answer, at most.
        timeout: seconds without a sign of life.
        certificates: a folder of further certificates.
    """

    url: str
    headers: Mapping[str, str]
    authorization: str | None = None
    body: bytes | None = None
    most: int = 1 << 20
    timeout: float = 10.0
    certificates: Path | None = None


@dataclass(frozen=True, slots=True)
class RegistryResponse:
    """A response of any status; headers by their names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class PlainHttpError(ImageError):
    """Only one of the two sides speaks TLS."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects; urllib keeps every header, but the authorization is sent only to its own origin."""

    max_redirections = _MOST_REDIRECTS

    def __init__(self, request: RegistryRequest) -> None:
        self._request = request

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        """The next request; never from TLS to none."""
        if urlsplit(req.full_url).scheme == "https" and urlsplit(newurl).scheme != "https":
            raise ImageError(f"{_shown(req.full_url)} redirects to {_shown(newurl)}, which is not encrypted")
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        if made is not None and _origin(newurl) == _origin(self._request.url) and self._request.authorization:
            made.add_unredirected_header("Authorization", self._request.authorization)
        return made


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)


def _shown(url: str) -> str:
    """A URL for messages, without secrets and without its path: what follows a word such as token is hidden."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def send(request: RegistryRequest) -> RegistryResponse:
    """Sends a request, following redirects.

    Raises:
        PlainHttpError: if only one side speaks TLS.
        ImageError: for every other failure.
    """
    try:
        where = _shown(request.url)
        prepared = urllib.request.Request(request.url, data=request.body, headers=dict(request.headers))  # noqa: S310 - http and https alone are made
    except ValueError as error:  # a bracket that has no end, or no address in it
        raise ImageError(f"{request.url[:80]!r} is no address: {error}") from error
    prepared.add_header("User-Agent", _AGENT)
    if request.authorization:
        prepared.add_unredirected_header("Authorization", request.authorization)
    try:
        opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=_context(request.certificates)),
            _Redirects(request),
            *((urllib.request.ProxyHandler({}),) if is_loopback(urlsplit(request.url).netloc) else ()),
        )
        with opener.open(prepared, timeout=request.timeout) as response:
            return RegistryResponse(response.status, _lower(response.headers), _read(response, request, where))
    except urllib.error.HTTPError as error:
        with error:
            return RegistryResponse(error.code, _lower(error.headers), _read(error, request, where))
    except urllib.error.URLError as error:
        raise _unreachable(error.reason, where) from error
    except (http.client.HTTPException, OSError, ValueError) as error:
        raise _unreachable(error, where) from error


def is_loopback(netloc: str) -> bool:
    """Whether a host is this very machine, for which engines ask no proxy.

    Go, net/http, ProxyFromEnvironment: neither for localhost nor for a loopback address (read November 2026).
    """
    try:
        host = (urlsplit(f"//{netloc}").hostname or "").lower()
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


@lru_cache(maxsize=4)
def _context(folder: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    for path in sorted(folder.glob("*.crt")) if folder is not None and folder.is_dir() else ():
        context.load_verify_locations(path)
    return context


def _lower(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _read(response: IO[bytes], request: RegistryRequest, where: str) -> bytes:
    """The body; one that is longer than it may be is refused before it is kept."""
    found = bytearray()
    while chunk := response.read(_CHUNK):
        found += chunk
        if len(found) > request.most:
            raise ImageError(f"{where}: the answer is larger than the {request.most} bytes that it may have")
    return bytes(found)


def _unreachable(reason: object, where: str) -> ImageError:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return ImageError(
            f"{where}: its certificate is not trusted: {reason.verify_message}",
            "put the certificate of its authority into /etc/docker/certs.d/HOST/ca.crt, or name it by SSL_CERT_FILE",
        )
    if getattr(reason, "reason", None) == "WRONG_VERSION_NUMBER":
        return PlainHttpError(f"{where}: speaks no TLS there", _NO_TLS)
    if isinstance(reason, ssl.SSLError | ConnectionResetError | http.client.BadStatusLine):
        return PlainHttpError(f"{where}: the connection broke: {reason}", "try again; is this the registry's port?")
    if isinstance(reason, TimeoutError):
        return ImageError(f"{where}: no answer in time", "try again, or give it more time with --timeout")
    if isinstance(reason, http.client.IncompleteRead):
        return ImageError(f"{where}: the answer was cut short", "try again")
    text = getattr(reason, "strerror", None) or str(reason)
    return ImageError(f"{where}: cannot be reached: {text}", "is the name right, and is a proxy needed (HTTPS_PROXY)?")
