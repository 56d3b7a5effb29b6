"""Downloads a small file over HTTPS: bounded in size and in time, and from the named host only.

The standard library, which honours the proxy variables and takes the system's certificates (SSL_CERT_FILE names
others).
"""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from base64 import b64encode
from http.client import HTTPMessage
from typing import IO
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

from gpuenv import __version__
from gpuenv.cli.command_errors import CommandError
from gpuenv.image.inspect.http import is_loopback
from gpuenv.model.exit_codes import ExitCode

_CHUNK = 65536
_MAX_REDIRECTS = 5


class DownloadError(CommandError):
    """A file was not downloaded."""

    def __init__(self, message: str, remedy: str | None = None) -> None:
        super().__init__(ExitCode.COULD_NOT_CHECK, message, remedy)


class NotFoundError(DownloadError):
    """The server has no such file."""


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows redirects within the host, never to less security."""

    max_redirections = _MAX_REDIRECTS

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        """The next request.

        Raises:
            DownloadError: for another host, or a scheme without TLS.
        """
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        if before.hostname == after.hostname and (before.scheme, after.scheme) == ("http", "https"):
            return super().redirect_request(req, fp, code, msg, headers, newurl)
        if before.scheme != after.scheme:
            raise DownloadError(f"{shown(req.full_url)} redirects to {shown(newurl)}, which is not encrypted")
        if (before.hostname, _port(before)) != (after.hostname, _port(after)):
            raise DownloadError(
                f"{shown(req.full_url)} redirects to another host, {shown(newurl)}",
                f"if you trust {after.netloc.rpartition('@')[2]}, name that address instead",
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _port(parts: SplitResult) -> int:
    return parts.port or (http.client.HTTPS_PORT if parts.scheme == "https" else http.client.HTTP_PORT)


def shown(address: str) -> str:
    """An address for messages: without user name, password and query."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def download(address: str, limit: int, timeout: float) -> bytes:
    """The content of an http or https address.

    The time limit is for each answer of the server; run this in a thread with a deadline to limit all of it.

    Args:
        address: may have a user name and a password, which are sent to its host only.
        limit: of the content, in bytes.
        timeout: in seconds.

    Raises:
        NotFoundError: when there is no such file.
        DownloadError: for every other failure.
    """
    where = shown(address)
    try:
        opener = urllib.request.build_opener(
            _SameHost(),
            urllib.request.HTTPSHandler(context=ssl.create_default_context()),
            *((urllib.request.ProxyHandler({}),) if is_loopback(urlsplit(address).netloc.rpartition("@")[2]) else ()),
        )
        with opener.open(_request(address), timeout=timeout) as response:
            return _content(response, limit, where)
    except urllib.error.HTTPError as error:
        with error:
            message = f"{where}: the server answers {error.code} {str(error.reason).partition(chr(10))[0]}".rstrip()
        raise (NotFoundError if error.code in (404, 410) else DownloadError)(message) from error
    except urllib.error.URLError as error:
        raise _failure(error.reason, where) from error
    except (http.client.HTTPException, OSError, ValueError) as error:
        raise _failure(error, where) from error


def _request(address: str) -> urllib.request.Request:
    parts = urlsplit(address)
    credentials, _, netloc = parts.netloc.rpartition("@")
    request = urllib.request.Request(parts._replace(netloc=netloc, fragment="").geturl())  # noqa: S310 - http or https
    request.add_header("User-Agent", f"gpuenv/{__version__}")
    if credentials:
        request.add_header("Authorization", f"Basic {b64encode(unquote_to_bytes(credentials)).decode()}")
    return request


def _content(response: http.client.HTTPResponse, limit: int, where: str) -> bytes:
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise DownloadError(f"{where}: the server compresses it ({encoding})", "publish it without Content-Encoding")
    content = bytearray()
    while chunk := response.read(_CHUNK):
        content += chunk
        if len(content) > limit:
            raise DownloadError(f"{where}: larger than {limit} bytes, the limit")
    if response.length:  # http.client reports no early end
        raise DownloadError(f"{where}: the answer was cut short", "try again")
    return bytes(content)


def _failure(reason: object, where: str) -> DownloadError:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return DownloadError(
            f"{where}: its certificate is not trusted: {reason.verify_message}",
            "for an authority of your own, name its certificate with SSL_CERT_FILE",
        )
    if isinstance(reason, TimeoutError):
        return DownloadError(f"{where}: no answer in time", "try again, or allow more time with --timeout")
    if isinstance(reason, http.client.IncompleteRead):
        return DownloadError(f"{where}: the answer was cut short", "try again")
    text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return DownloadError(f"{where}: cannot be downloaded: {text}", "is a proxy needed (HTTPS_PROXY)?")
