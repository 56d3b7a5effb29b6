"""Files: bounded reads, atomic writes, and the user's folders.

A well-known path may hold anything: ``read_regular`` refuses all but regular files. A path named by the user may be a
pipe or a device on purpose, such as the ``<(...)`` of a shell: ``read_at_most`` waits for it. Neither trusts the size
that the file system reports.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_CHUNK = 1 << 20
LARGEST_DOCUMENT = 6 * 1024 * 1024  # bytes of JSON or TOML, which become up to 34 times as many


def is_file(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a readable file; ``Path.is_file`` raises on missing permissions (up to 3.13)."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a folder; False for a name that is too long for the file system."""
    return os.path.isdir(path)  # noqa: PTH112


class TooLargeError(OSError):
    """A file is larger than allowed."""

    def __init__(self, path: str | os.PathLike[str], limit: int) -> None:
        """``limit`` is the largest allowed size in bytes."""
        super().__init__(errno.EFBIG, f"larger than {limit} bytes", os.fspath(path))


class NotRegularError(OSError):
    """A FIFO, a socket or a device instead of a regular file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """``path`` is its path."""
        super().__init__(errno.EINVAL, "not a regular file", os.fspath(path))


def open_regular(path: str | os.PathLike[str], *, follow: bool = True, folder: int | None = None) -> int:
    """Opens a regular file for reading and returns its descriptor; does not wait for a FIFO.

    Args:
        path: the file.
        follow: whether to follow a symbolic link.
        folder: the descriptor of the folder in which a relative path begins; the working folder by default.

    Raises:
        OSError: when it cannot be opened, or is not a regular file.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags if follow else flags | getattr(os, "O_NOFOLLOW", 0), dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ENXIO:  # open(2): a socket, or a missing device
            raise NotRegularError(path) from error
        raise
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise NotRegularError(path)


def others_access(status: os.stat_result) -> str | None:
    """How another user can change a file or folder, as a predicate: ``is writable by every user``; None if none can.

    The effective user and root are trusted, and the groups of this process: members of the same group share a project
    on purpose. Write permission of another group is not. Windows has no owners in this sense.

    Args:
        status: of an opened descriptor, since a path can be replaced after a look at it.
    """
    if sys.platform == "win32":
        return None
    if status.st_uid not in (0, os.geteuid()):
        return f"belongs to another user (uid {status.st_uid})"
    if status.st_mode & stat.S_IWOTH:
        return "is writable by every user"
    if status.st_mode & stat.S_IWGRP and status.st_gid not in (0, os.getegid(), *os.getgroups()):
        return f"is writable by another group (gid {status.st_gid})"
    return None


def read_regular(path: str | os.PathLike[str], limit: int) -> bytes:
    """The content of a regular file.

    Raises:
        OSError: when it cannot be read, is not a regular file, or has more than ``limit`` bytes.
    """
    descriptor = open_regular(path)
    try:
        return _read_descriptor(descriptor, path, limit)
    finally:
        os.close(descriptor)


def read_at_most(path: str | os.PathLike[str], limit: int) -> bytes:
    """The content of a file, a pipe or a device that a user named.

    Raises:
        OSError: when it cannot be read, or has more than ``limit`` bytes.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
    try:
        return _read_descriptor(descriptor, path, limit)
    finally:
        os.close(descriptor)


def _read_descriptor(descriptor: int, path: str | os.PathLike[str], limit: int) -> bytes:
    chunks: list[bytes] = []
    remaining = limit + 1
    while remaining > 0 and (chunk := os.read(descriptor, min(remaining, _CHUNK))):
        chunks.append(chunk)
        remaining -= len(chunk)
    if remaining <= 0:
        raise TooLargeError(path, limit)
    return b"".join(chunks)


def replace_file(path: Path, text: str, *, durable: bool = False, private: bool = False, shared: bool = False) -> None:
    """Writes a file atomically, by one rename.

    Args:
        path: the file; an existing one keeps its permissions, a new one gets 0600.
        text: written in UTF-8, with escapes for what it cannot encode.
        durable: whether the new content survives a power failure once this returns.
        private: set the permissions to 0600 in any case.
        shared: a new file gets the permissions of the umask.

    Raises:
        OSError: when it cannot be written; an existing file is unchanged.
    """
    import tempfile  # noqa: PLC0415 - most runs write no file

    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if not private:
            new = 0o666 & ~_umask() if shared else 0o600
            temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else new)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes the entries of a folder survive a power failure.

    Raises:
        OSError: when the folder cannot be opened.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    """The umask; it can only be read by setting it."""
    current = os.umask(0o077)
    os.umask(current)
    return current


_NAME = "gpuenv"


def user_data(environment: Mapping[str, str]) -> Path | None:
    """The folder of the user's data; None without a home."""
    return _folder(environment, "XDG_DATA_HOME", ".local/share", "Library/Application Support")


def user_cache(environment: Mapping[str, str]) -> Path | None:
    """The user's cache folder; None without a home."""
    return _folder(environment, "XDG_CACHE_HOME", ".cache", "Library/Caches")


def user_matrix(environment: Mapping[str, str]) -> Path | None:
    """The path of the user's refreshed matrix, which need not exist."""
    folder = user_data(environment)
    return folder / "matrix.yaml" if folder else None


def home_folder(environment: Mapping[str, str]) -> Path:
    """HOME, else the home folder of the account, else ``~``."""
    return Path(environment.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111 - no error without a home


def _folder(environment: Mapping[str, str], variable: str, usual: str, on_macos: str) -> Path | None:
    folder = environment.get(variable, "")
    if os.path.isabs(folder):  # noqa: PTH117 - the XDG specification: ignore relative ones
        return Path(folder) / _NAME
    if sys.platform == "win32":
        local = environment.get("LOCALAPPDATA")
        return Path(local) / _NAME if local else None
    home = environment.get("HOME")
    if not home:
        return None
    return Path(home) / (on_macos if sys.platform == "darwin" else usual) / _NAME


def parse_toml(text: str) -> dict[str, Any]:
    """Parses a TOML document.

    Raises:
        ValueError: when it is invalid.
    """
    if sys.version_info >= (3, 11):
        import tomllib  # noqa: PLC0415 - few runs read TOML
    else:
        import tomli as tomllib  # noqa: PLC0415
    return tomllib.loads(text)
