"""HTTP requests of the standard library, limited in size and time; no secret follows a redirect to another origin.

urllib honours the proxy variables and takes the system's certificates (SSL_CERT_FILE names others).
"""

from __future__ import annotations

import http.client
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from http.client import HTTPMessage
from ipaddress import ip_address
from pathlib import Path
from typing import IO, TypeVar
from urllib.parse import urlsplit

from gpuenv import __version__

T = TypeVar("T")
_CHUNK = 65536


class NetworkError(Exception):
    """A request without a response.

    Attributes:
        remedy: what to do.
        no_tls: whether the server does not speak TLS, or requires it where it was not used.
    """

    def __init__(self, message: str, remedy: str | None = None, *, no_tls: bool = False) -> None:
        super().__init__(message)
        self.remedy = remedy
        self.no_tls = no_tls


@dataclass(frozen=True, slots=True)
class Request:
    """A request.

    Attributes:
        url: an http or https address without user name and password.
        limit: largest size of a response in bytes.
        timeout: longest wait for the next bytes in seconds; ``run_within`` limits the whole request.
        headers: all headers except ``Authorization``.
        authorization: the header ``Authorization``, sent only to the origin of the URL.
        body: the form to post.
        certificates: a folder with further certificates.
        same_host: whether redirects to other hosts are refused.
    """

    url: str
    limit: int
    timeout: float
    headers: Mapping[str, str] = field(default_factory=dict)
    authorization: str | None = None
    body: bytes | None = None
    certificates: Path | None = None
    same_host: bool = False


@dataclass(frozen=True, slots=True)
class Response:
    """A response of any status; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects; urllib would send every header to every host, and follow from https to http."""

    max_redirections = 5

    def __init__(self, request: Request) -> None:
        self._request = request

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        """The next request.

        Raises:
            NetworkError: when it is not encrypted, or goes to another host and ``same_host`` is set.
        """
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        if before.scheme == "https" and after.scheme != "https":
            raise NetworkError(f"it redirects to {hide_credentials(newurl)}, which is not encrypted")
        upgraded = before.hostname == after.hostname and (before.scheme, after.scheme) == ("http", "https")
        if self._request.same_host and not upgraded and _origin(req.full_url) != _origin(newurl):
            raise NetworkError(
                f"it redirects to another host, {hide_credentials(newurl)}",
                f"if you trust {after.netloc.rpartition('@')[2]}, name that address instead",
            )
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if following is not None and self._request.authorization and _origin(newurl) == _origin(self._request.url):
            following.add_unredirected_header("Authorization", self._request.authorization)
        return following


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)


def hide_credentials(url: str) -> str:
    """An address for messages: without user name, password and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def send(request: Request) -> Response:
    """Sends a request, following redirects.

    Raises:
        NetworkError: if there is no response; messages do not name the address.
    """
    try:
        prepared = urllib.request.Request(request.url, data=request.body, headers=dict(request.headers))  # noqa: S310 - http or https
        prepared.add_header("User-Agent", f"gpuenv/{__version__}")
        if request.authorization:
            prepared.add_unredirected_header("Authorization", request.authorization)
        opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=_tls_context(request.certificates)),
            _Redirects(request),
            *((urllib.request.ProxyHandler({}),) if is_loopback(urlsplit(request.url).netloc) else ()),
        )
        try:
            response = opener.open(prepared, timeout=request.timeout)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Response(response.status, headers, _read(response, request.limit))
    except urllib.error.URLError as error:
        raise _network_error(error.reason, request.timeout) from error
    except (http.client.HTTPException, OSError, ValueError) as error:
        raise _network_error(error, request.timeout) from error


def _read(response: IO[bytes], limit: int) -> bytes:
    content = bytearray()
    while chunk := response.read(_CHUNK):
        content += chunk
        if len(content) > limit:
            raise NetworkError(f"the answer is larger than {limit} bytes, the limit")
    if getattr(response, "length", None):  # http.client reports no early end
        raise NetworkError("the answer was cut short", "try again")
    return bytes(content)


@lru_cache(maxsize=4)
def _tls_context(folder: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    for path in sorted(folder.glob("*.crt")) if folder is not None and folder.is_dir() else ():
        context.load_verify_locations(path)
    return context


def _network_error(reason: object, timeout: float) -> NetworkError:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return NetworkError(
            f"its certificate is not trusted: {reason.verify_message}",
            "for an authority of your own, name its certificate with SSL_CERT_FILE",
        )
    if getattr(reason, "reason", None) == "WRONG_VERSION_NUMBER":
        return NetworkError("it speaks no TLS there", no_tls=True)
    if isinstance(reason, ssl.SSLError | ConnectionResetError | http.client.BadStatusLine):
        return NetworkError(f"the connection broke: {reason}", "try again; is this the right port?", no_tls=True)
    if isinstance(reason, TimeoutError):
        return NetworkError(f"no answer within {round(timeout, 1):g} s", "try again, or allow more time with --timeout")
    if isinstance(reason, http.client.IncompleteRead):
        return NetworkError("the answer was cut short", "try again")
    text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return NetworkError(f"cannot be reached: {text}", "is the name right, and is a proxy needed (HTTPS_PROXY)?")


def is_loopback(netloc: str) -> bool:
    """Whether a host is this machine, to which engines connect without a proxy and without TLS.

    Go, net/http, ProxyFromEnvironment: neither for localhost nor for a loopback address (read November 2026).
    """
    try:
        host = (urlsplit(f"//{netloc}").hostname or "").lower()
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def run_within(seconds: float, function: Callable[[], T]) -> T:
    """The result of a function that uses the network, within a deadline.

    It runs in a daemon thread, which is abandoned at the deadline: no other limit covers a slow name server, or a
    server that sends a byte now and then.

    Raises:
        TimeoutError: if it has not ended in time.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:  # noqa: BLE001 - raised again by the waiting thread
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"no answer within {seconds:g} s")
    return results[0]
