"""``gpuenv matrix update``: takes a published matrix that is newer than the one in use."""

from __future__ import annotations

import json
import os
import re
import shlex
import zlib
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from gpuenv import files
from gpuenv.cli.command_errors import CommandError, announce, with_state
from gpuenv.cli.sources import get_matrix, matrix_path, read_snapshot, require_own_matrix
from gpuenv.clock import days_since
from gpuenv.data import data_path
from gpuenv.matrix.load import MAX_BYTES, is_json, read
from gpuenv.matrix.tables import Matrix
from gpuenv.matrix.validate import MatrixError
from gpuenv.model.codec import encode
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.strings import Lines, decode_text, error_reason
from gpuenv.net import NetworkError, Request, hide_credentials, is_loopback, run_within, send
from gpuenv.refresh.summary import changed_machines
from gpuenv.report.text_line import Style, TextLine
from gpuenv.simulate.profile import shipped_machines

VARIABLE = "GPUENV_MATRIX_URL"
_NAMES = ("matrix.json", "matrix.yaml")  # in a folder, in the order of the search
_DIGEST = re.compile(r"[0-9a-f]{64}")
_BSD_DIGEST = re.compile(r"SHA256 \((.+)\) = ([0-9A-Fa-f]{64})")
_MAX_DIGEST_FILE = 65536
_INVALID = "the published matrix is invalid; the one in use is unchanged:"
_HOW_TO_NAME_A_SOURCE = Lines(
    (
        "name an address, a file, or a folder with matrix.json and matrix.json.sha256:",
        "  gpuenv matrix update https://HOST/matrix.json",
        "  gpuenv matrix update FOLDER",
        f"or set {VARIABLE} to one of them",
    )
)


class _Published(NamedTuple):
    """A published matrix: its name in messages, its content, and the text of its digest file, None without one."""

    name: str
    file_name: str
    content: bytes
    digest_file: str | None


def update_matrix(
    source: str | None, digest: str | None, snapshots: Sequence[Path], timeout: float, *, dry_run: bool
) -> Iterator[TextLine]:
    """Replaces the user's matrix by a newer published one; yields what changes as lines.

    Args:
        source: an address, a file or a folder.
        digest: the SHA-256 digest of the matrix; by default that of the file with the suffix ``.sha256``.
        snapshots: recorded machines; those with another answer are listed.
        timeout: seconds for all downloads together.
        dry_run: report only.

    Raises:
        CommandError: when the matrix cannot be read, is not the one that was published, is invalid or older than the
            one in use, or cannot be written; the matrix in use is then unchanged.
    """
    if not source:
        raise CommandError(
            ExitCode.USAGE, "no published matrix is named; gpuenv has no address of its own", _HOW_TO_NAME_A_SOURCE
        )
    expected = None if digest is None else _given_digest(digest)
    recorded = {str(path): read_snapshot(path) for path in snapshots}
    target = None if dry_run else require_own_matrix(files.updated_matrix(os.environ))
    before = _in_use()
    published = _fetch(source, timeout, with_digest_file=expected is None)
    _check_digest(published, expected)
    after = _read(published)
    yield TextLine(f"{published.name}: revision {after.revision}; in use: {before.revision}", hang=2)
    if after.revision == before.revision:
        if encode(after) != encode(before):
            message = f"{published.name}: has the revision in use, {after.revision}, and other content"
            raise CommandError(ExitCode.USAGE, message, "its publisher has to give it a newer revision")
        yield TextLine("already up to date", Style.GOOD)
        return
    if (days_since(after.revision) or 0) < -1:
        announce(f"revision {after.revision} is in the future: until then, no other matrix is newer")
    if after.revision < before.revision:
        message = f"{published.name}: revision {after.revision} is older than {before.revision}, which is in use"
        own = matrix_path(None)
        fix = None if own == data_path("matrix.yaml") else f"to stop using your own matrix: rm {shlex.quote(str(own))}"
        raise CommandError(ExitCode.USAGE, f"{message}; the matrix is unchanged", fix)
    yield from _changes("Machine profiles", "machine profile", shipped_machines(after), before, after)
    if recorded:
        yield from _changes("Recorded machines", "recorded machine", recorded, before, after)
    if target is None:
        yield TextLine("Nothing was written (--dry-run).")
        return
    undo = _store(target, _stored_text(published, after))
    yield TextLine(f"{target}: written, revision {after.revision}", Style.GOOD, 2)
    yield TextLine("To undo:", Style.HEADING)
    yield TextLine(f"  $ {shlex.join(undo)}", Style.COMMAND, 4)


def _in_use() -> Matrix:
    """The matrix in use; a damaged one of an earlier update counts as none."""
    try:
        return get_matrix(None, quiet=True)
    except CommandError as error:
        if matrix_path(None) != files.updated_matrix(os.environ):
            raise
        announce(f"{error.message}; it is replaced")
        return get_matrix(data_path("matrix.yaml"), quiet=True)


def _stored_text(published: _Published, matrix: Matrix) -> str:
    """The JSON to store, with the keys that only a later release of gpuenv reads.

    Raises:
        CommandError: when it is too large to be read again.
    """
    text = decode_text(published.content)
    values = json.loads(text) if is_json(text) else encode(matrix)
    stored = json.dumps(values, separators=(",", ":"))
    if len(stored) > MAX_BYTES:
        message = f"{published.name}: larger than {MAX_BYTES} bytes in JSON, the limit of a matrix"
        raise CommandError(ExitCode.MATRIX_INVALID, message)
    return stored


def _given_digest(text: str) -> str:
    digest = text.strip().lower().removeprefix("sha256:")
    if not _DIGEST.fullmatch(digest):
        raise CommandError(ExitCode.USAGE, f"--sha256 {text}: expected a SHA-256 digest, 64 hexadecimal digits")
    return digest


def _fetch(source: str, timeout: float, *, with_digest_file: bool) -> _Published:
    """Reads the source; the digest file is read only if it is needed."""
    scheme, separator, _ = source.partition("://")
    if not separator:
        return _read_path(Path(source), with_digest_file=with_digest_file)
    _check_address(source, scheme.lower(), is_verified=not with_digest_file)
    name = hide_credentials(source)

    def fetch() -> _Published:
        content = download(source, MAX_BYTES, timeout)
        digest_file = _download_digest(source, timeout) if with_digest_file else None
        return _Published(name, PurePosixPath(unquote(urlsplit(source).path)).name, content, digest_file)

    try:
        return run_within(timeout, fetch)
    except TimeoutError:  # a server that hangs or trickles, or a name server
        failure = DownloadError(f"{name}: no answer within {timeout:g} s", "try again, or allow more with --timeout")
    except DownloadError as error:
        failure = error
    raise CommandError(failure.exit_code, with_state(failure.message, "the matrix is unchanged"), failure.remedy)


def _check_address(source: str, scheme: str, *, is_verified: bool) -> None:
    """Refuses an invalid address, and one whose answer could be replaced on the way."""
    try:
        parts = urlsplit(source)
        host, _ = parts.hostname, parts.port
    except ValueError as error:  # its text may have a part of a password
        message = "the address of the matrix has no readable host and port"
        remedy = "special characters of a password are written with %, as %2F for a slash"
        raise CommandError(ExitCode.USAGE, message, remedy) from error
    if scheme not in ("https", "http") or not host:
        raise CommandError(ExitCode.USAGE, f"{hide_credentials(source)} is no https address", _HOW_TO_NAME_A_SOURCE)
    if not PurePosixPath(parts.path).name:
        raise CommandError(
            ExitCode.USAGE, f"{hide_credentials(source)} names no file", "append its name, such as matrix.json"
        )
    if scheme == "https" or is_loopback(parts.netloc.rpartition("@")[2]):
        return
    has_credentials = "@" in parts.netloc
    if has_credentials or not is_verified:
        fix = "use https" if has_credentials else "use https, or name the digest with --sha256 DIGEST"
        raise CommandError(
            ExitCode.USAGE, f"{hide_credentials(source)} is not encrypted: anyone on the way could change it", fix
        )


def _download_digest(source: str, timeout: float) -> str | None:
    parts = urlsplit(source)
    try:
        content = download(parts._replace(path=f"{parts.path}.sha256").geturl(), _MAX_DIGEST_FILE, timeout)
    except NotFoundError:
        return None
    return content.decode("utf-8", "replace")


def _read_path(path: Path, *, with_digest_file: bool) -> _Published:
    """Reads a matrix, and the digest file, from a file or a folder.

    Raises:
        CommandError: when the matrix or the digest file cannot be read.
    """
    if files.is_folder(path):
        found = next((path / name for name in _NAMES if files.is_file(path / name)), None)
        if found is None:
            raise CommandError(ExitCode.USAGE, f"{path}: has neither {_NAMES[0]} nor {_NAMES[1]}")
        path = found
    digest_path, digest_file = path.with_name(f"{path.name}.sha256"), None
    try:
        content = files.read_at_most(path, MAX_BYTES)
        if with_digest_file and files.is_file(digest_path):
            digest_file = files.read_regular(digest_path, _MAX_DIGEST_FILE).decode("utf-8", "replace")
    except (OSError, ValueError) as error:
        name = getattr(error, "filename", None) or path
        raise CommandError(ExitCode.USAGE, f"{name}: {error_reason(error)}") from error
    return _Published(str(path), path.name, content, digest_file)


def _check_digest(published: _Published, expected: str | None) -> None:
    """Compares the content with the digest.

    Raises:
        CommandError: when they differ, or there is no digest.
    """
    origin = "--sha256"
    if expected is None:
        origin = f"{published.name}.sha256"
        if published.digest_file is None:
            message = f"{published.name}: it cannot be verified: there is no {published.file_name}.sha256 next to it"
            raise CommandError(ExitCode.USAGE, message, "name the digest that its publisher states: --sha256 DIGEST")
        expected = _listed_digest(published.digest_file, published.file_name)
        if expected is None:
            message = f"{origin}: has no digest of {published.file_name}"
            raise CommandError(ExitCode.USAGE, message, f"expected a line as sha256sum {published.file_name} prints it")
    found = sha256(published.content).hexdigest()
    if found != expected:
        message = (
            f"{published.name}: damaged or altered: its SHA-256 digest is {found}, and by {origin} {expected}; "
            "the matrix is unchanged"
        )
        raise CommandError(ExitCode.MATRIX_INVALID, message, "get it again, or ask its publisher")


def _listed_digest(text: str, file_name: str) -> str | None:
    """The digest of a file in the output of sha256sum; a digest alone, without a name, is of any file."""
    for line in text.removeprefix("\ufeff").splitlines():
        bsd = _BSD_DIGEST.fullmatch(line.strip())  # as sha256 of BSD and macOS prints it
        digest, _, name = (bsd[2], "", bsd[1]) if bsd else line.strip().replace("\t", " ").partition(" ")
        name = name.lstrip(" *").replace("\\", "/").rpartition("/")[2]
        if _DIGEST.fullmatch(digest.lower()) and name in ("", file_name):
            return digest.lower()
    return None


def _read(published: _Published) -> Matrix:
    """The matrix, validated.

    Raises:
        CommandError: with every fault.
    """
    try:
        matrix = read(published.content, published.name)
    except MatrixError as error:
        faults = (f"  {fault}" for fault in error.faults)
        message = Lines((_INVALID, *faults))
        raise CommandError(ExitCode.MATRIX_INVALID, message) from error
    except UnicodeDecodeError as error:
        reason = f"{published.name}: {error_reason(error)}; the matrix in use is unchanged"
        raise CommandError(ExitCode.MATRIX_INVALID, reason) from error
    return matrix


def _changes(
    kinds: str, kind: str, machines: Mapping[str, Snapshot], before: Matrix, after: Matrix
) -> Iterator[TextLine]:
    found = [TextLine(f"  {row.text}", hang=4) for row in changed_machines(machines, before, after)]
    yield TextLine(f"{kinds} that resolve differently:" if found else f"No {kind} resolves differently.")
    yield from found


def _store(target: Path, text: str) -> list[str]:
    """Writes the matrix and keeps the former one; returns the command that puts that back.

    Each file is replaced by one rename, so that an interruption leaves the former matrix or the new one.
    """
    former = target.with_name("matrix.former.json")
    try:
        files.make_private_folder(target.parent)
        has_former = files.is_file(target)
        if has_former:
            files.replace_file(former, files.read_regular(target, MAX_BYTES).decode("utf-8", "replace"), durable=True)
        files.replace_file(target, text, durable=True)
        files.replace_file(files.checksum_of(target), f"{zlib.crc32(text.encode())}\n", private=True)
    except OSError as error:
        message = f"{target}: cannot be written: {error_reason(error)}; the matrix in use is unchanged"
        raise CommandError(ExitCode.USAGE, message) from error
    return ["mv", str(former), str(target)] if has_former else ["rm", str(target)]


class DownloadError(CommandError):
    """A file was not downloaded."""

    def __init__(self, message: str, remedy: str | None = None) -> None:
        super().__init__(ExitCode.COULD_NOT_CHECK, message, remedy)


class NotFoundError(DownloadError):
    """The server has no such file."""


def download(address: str, limit: int, timeout: float) -> bytes:
    """The content of an http or https address.

    The time limit is for each answer of the server; ``run_within`` limits all of it. A user name and a password in the
    address are sent to its host only.

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
