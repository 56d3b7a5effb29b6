"""Downloads a small file, limited in size and in time, from the named host only."""

from __future__ import annotations

from base64 import b64encode
from http import HTTPStatus
from urllib.parse import unquote_to_bytes, urlsplit

from gpuenv.cli.command_errors import CommandError
from gpuenv.model.exit_codes import ExitCode
from gpuenv.net import NetworkError, Request, hide_credentials, send


class DownloadError(CommandError):
    """A file was not downloaded."""

    def __init__(self, message: str, remedy: str | None = None) -> None:
        super().__init__(ExitCode.COULD_NOT_CHECK, message, remedy)


class NotFoundError(DownloadError):
    """The server has no such file."""


def download(address: str, limit: int, timeout: float) -> bytes:
    """The content of an http or https address.

    The time limit is for each answer of the server; ``run_within`` limits all of it.

    Args:
        address: may have a user name and a password, which are sent to its host only.
        limit: of the content, in bytes.
        timeout: in seconds.

    Raises:
        NotFoundError: when there is no such file.
        DownloadError: for every other failure.
    """
    where = hide_credentials(address)
    parts = urlsplit(address)
    credentials, _, netloc = parts.netloc.rpartition("@")
    authorization = f"Basic {b64encode(unquote_to_bytes(credentials)).decode()}" if credentials else None
    url = parts._replace(netloc=netloc, fragment="").geturl()
    try:
        response = send(Request(url, limit, timeout, authorization=authorization, same_host=True))
    except NetworkError as error:
        raise DownloadError(f"{where}: cannot be downloaded: {error}", error.remedy) from error
    if response.status != HTTPStatus.OK:
        kind = NotFoundError if response.status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE) else DownloadError
        raise kind(f"{where}: the server answers {response.status}")
    encoding = response.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise DownloadError(f"{where}: the server compresses it ({encoding})", "publish it without Content-Encoding")
    return response.body
