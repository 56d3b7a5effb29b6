"""Files that are read whole, within bounds.

What lies in a well-known place may be anything by now: ``read_regular`` is for those. What a user names may be a pipe
or a device on purpose, such as the ``<(...)`` of a shell: ``read_at_most`` waits for it. Neither trusts a size that is
told beforehand.
"""

from __future__ import annotations

import errno
import os
import stat

_CHUNK = 1 << 20


def is_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file is there, as far as this user may look: ``Path.is_file`` raises where one may not (to 3.13)."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is there, likewise; a name that is too long for the file system is none either."""
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
    """The descriptor of a regular file, for reading; a FIFO in its place keeps nobody waiting.

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
