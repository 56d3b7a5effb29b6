"""One question to a registry over HTTP: bounded in size and in time, and no secret follows a redirect elsewhere.

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
from gpuenv.image.check.image_facts import ImageError

_AGENT = f"gpuenv/{__version__}"
_MOST_REDIRECTS = 5
_CHUNK = 65536
_NO_TLS = (
    "a registry without TLS is asked on this machine alone; have the engine pull it (insecure-registries in its "
    "daemon.json), then --from engine"
)


@dataclass(frozen=True, slots=True)
class RegistryRequest:
    """What is asked.

    Attributes:
        url: where.
        headers: beside the authorization.
        authorization: goes to this very origin alone.
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
    """What came back: any status; headers by their names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class PlainHttpError(ImageError):
    """The two sides do not speak the same: one of them TLS, the other none."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Redirects, of which urllib keeps every header: the authorization is none of those, and goes back home alone."""

    max_redirections = _MOST_REDIRECTS

    def __init__(self, question: RegistryRequest) -> None:
        self._question = question

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        """The next question; never from TLS to none."""
        if urlsplit(req.full_url).scheme == "https" and urlsplit(newurl).scheme != "https":
            raise ImageError(f"{_shown(req.full_url)} redirects to {_shown(newurl)}, which is not encrypted")
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        if made is not None and _origin(newurl) == _origin(self._question.url) and self._question.authorization:
            made.add_unredirected_header("Authorization", self._question.authorization)
        return made


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)


def _shown(url: str) -> str:
    """A URL without what may be secret in it, and without its path: behind a word such as token nothing may be said."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def send(question: RegistryRequest) -> RegistryResponse:
    """Asks once, following redirects.

    Raises:
        PlainHttpError: where TLS was spoken to one who knows none.
        ImageError: for every other way of having no answer.
    """
    try:
        where = _shown(question.url)
        request = urllib.request.Request(question.url, data=question.body, headers=dict(question.headers))  # noqa: S310 - http and https alone are made
    except ValueError as error:  # a bracket that has no end, or no address in it
        raise ImageError(f"{question.url[:80]!r} is no address: {error}") from error
    request.add_header("User-Agent", _AGENT)
    if question.authorization:
        request.add_unredirected_header("Authorization", question.authorization)
    try:
        opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=_context(question.certificates)),
            _Redirects(question),
            *((urllib.request.ProxyHandler({}),) if is_loopback(urlsplit(question.url).netloc) else ()),
        )
        with opener.open(request, timeout=question.timeout) as response:
            return RegistryResponse(response.status, _lower(response.headers), _read(response, question, where))
    except urllib.error.HTTPError as error:
        with error:
            return RegistryResponse(error.code, _lower(error.headers), _read(error, question, where))
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


def _read(response: IO[bytes], question: RegistryRequest, where: str) -> bytes:
    """The body; one that is longer than it may be is refused before it is kept."""
    found = bytearray()
    while chunk := response.read(_CHUNK):
        found += chunk
        if len(found) > question.most:
            raise ImageError(f"{where}: the answer is larger than the {question.most} bytes that it may have")
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
