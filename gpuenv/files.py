"""Files: read whole within bounds, written whole or not at all, and the folders of a user.

What lies in a well-known place may be anything by now: ``read_regular`` is for those. What a user names may be a pipe
or a device on purpose, such as the ``<(...)`` of a shell: ``read_at_most`` waits for it. Neither trusts a size that is
told beforehand.
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


def is_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file is there, as far as this user may look: ``Path.is_file`` raises where one may not (to 3.13)."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is there; a name that is too long for the file system is none either."""
    return os.path.isdir(path)  # noqa: PTH112


class TooLargeError(OSError):
    """More than such a file may have."""

    def __init__(self, path: str | os.PathLike[str], limit: int) -> None:
        """Tells the bytes that were expected at most."""
        super().__init__(errno.EFBIG, f"larger than {limit} bytes", os.fspath(path))


class NotRegularError(OSError):
    """A FIFO, a socket or a device, where a file was expected."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Tells where it is."""
        super().__init__(errno.EINVAL, "not a regular file", os.fspath(path))


def open_regular(path: str | os.PathLike[str], *, follow: bool = True) -> int:
    """The descriptor of a regular file, for reading; a FIFO in its place is not waited for.

    Args:
        path: where it lies.
        follow: whether a link in its place is followed.

    Raises:
        OSError: when it cannot be opened, or is anything else.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags if follow else flags | getattr(os, "O_NOFOLLOW", 0))
    except OSError as error:
        if error.errno == errno.ENXIO:  # open(2): a socket, or a device that is not there
            raise NotRegularError(path) from error
        raise
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise NotRegularError(path)


def read_regular(path: str | os.PathLike[str], limit: int) -> bytes:
    """The content of a regular file.

    Raises:
        OSError: when it cannot be read, is none, or has more than ``limit`` bytes.
    """
    descriptor = open_regular(path)
    try:
        return _within(descriptor, path, limit)
    finally:
        os.close(descriptor)


def read_at_most(path: str | os.PathLike[str], limit: int) -> bytes:
    """The content of a file, a pipe or a device that a user named.

    Raises:
        OSError: when it cannot be read, or has more than ``limit`` bytes.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
    try:
        return _within(descriptor, path, limit)
    finally:
        os.close(descriptor)


def _within(descriptor: int, path: str | os.PathLike[str], limit: int) -> bytes:
    parts: list[bytes] = []
    left = limit + 1
    while left > 0 and (part := os.read(descriptor, min(left, _CHUNK))):
        parts.append(part)
        left -= len(part)
    if left <= 0:
        raise TooLargeError(path, limit)
    return b"".join(parts)


def replace_file(path: Path, text: str, *, durable: bool = False, private: bool = False, shared: bool = False) -> None:
    """Puts a text in a file's place by one rename: a reader meets the former content or the new one.

    Args:
        path: the file; its permissions stay where it is there already, and a new one is its owner's alone.
        text: in UTF-8; what cannot be written so is written as an escape.
        durable: when this returns, the new content outlives a power cut.
        private: the owner alone may read it, whatever it was before.
        shared: made to be read by others: a new one has the rights that the umask leaves.

    Raises:
        OSError: when it cannot be written; what was there is untouched.
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
    """Makes the names in a folder outlive a power cut.

    Raises:
        OSError: when the folder cannot be opened.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    """The permissions that new files lack; reading it means setting it."""
    current = os.umask(0o077)
    os.umask(current)
    return current


_NAME = "gpuenv"


def user_data(environment: Mapping[str, str]) -> Path | None:
    """The folder of the user's data; None where there is no home."""
    return _folder(environment, "XDG_DATA_HOME", ".local/share", "Library/Application Support")


def user_cache(environment: Mapping[str, str]) -> Path | None:
    """The folder of what can be made again; None where there is no home."""
    return _folder(environment, "XDG_CACHE_HOME", ".cache", "Library/Caches")


def user_matrix(environment: Mapping[str, str]) -> Path | None:
    """The refreshed matrix of a user; it need not exist."""
    folder = user_data(environment)
    return folder / "matrix.yaml" if folder else None


def home_folder(environment: Mapping[str, str]) -> Path:
    """The home, as programs find it where HOME does not say; ``~`` where there is none."""
    return Path(environment.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111 - no error without a home


def _folder(environment: Mapping[str, str], variable: str, usual: str, on_macos: str) -> Path | None:
    named = environment.get(variable, "")
    if os.path.isabs(named):  # noqa: PTH117 - relative ones are to be ignored, says the XDG specification
        return Path(named) / _NAME
    if sys.platform == "win32":
        local = environment.get("LOCALAPPDATA")
        return Path(local) / _NAME if local else None
    home = environment.get("HOME")
    if not home:
        return None
    return Path(home) / (on_macos if sys.platform == "darwin" else usual) / _NAME


def parse_toml(text: str) -> dict[str, Any]:
    """A TOML document as plain values.

    Raises:
        ValueError: when it is none.
    """
    if sys.version_info >= (3, 11):
        import tomllib  # noqa: PLC0415 - few runs read TOML
    else:
        import tomli as tomllib  # noqa: PLC0415
    return tomllib.loads(text)
