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
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

_CHUNK = 1 << 20
_MOST_LINKS = 40  # as in Linux
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

    ``follow`` is whether to follow a symbolic link; a relative path begins in ``folder``, a descriptor.

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


def others_access(
    status: os.stat_result,
    user: int | None = None,
    groups: Sequence[int] | None = None,
    path: str | None = None,
) -> str | None:
    """How another user can change a file or folder, such as ``is writable by every user``; None if no other can.

    The effective user, root and the groups of this process are trusted: members of a group share a project on purpose.
    Another group with write permission is not trusted. Windows has no owners in this sense.

    Args:
        status: that of an opened descriptor, since a path can be replaced after it was examined.
        user: a trusted user instead of the effective one.
        groups: the groups of that user.
        path: the file, if its access control list counts as well.
    """
    if sys.platform == "win32":
        return None
    if foreign := _owner_problem(status, user):
        return foreign
    if status.st_mode & stat.S_IWOTH:
        return "is writable by every user"
    if not status.st_mode & stat.S_IWGRP:
        return None
    trusted = (0, *((os.getegid(), *os.getgroups()) if groups is None else groups))
    if status.st_gid not in trusted:
        return f"is writable by another group (gid {status.st_gid})"
    return _listed_writer(path, os.geteuid() if user is None else user, trusted) if path else None


_ACL, _ACL_USER, _ACL_GROUP, _ACL_WRITE = "system.posix_acl_access", 2, 8, 2  # linux/posix_acl_xattr.h


def _listed_writer(path: str, user: int, groups: Sequence[int]) -> str | None:
    """How the first untrusted user or group of an access control list can write: ``is writable by another user …``."""
    import struct  # noqa: PLC0415 - few files need it

    try:
        entries = [*struct.iter_unpack("<HHI", os.getxattr(path, _ACL)[4:])]
    except (OSError, AttributeError, struct.error):  # no list, or another system
        return None
    for tag, permissions, number in entries:
        if permissions & _ACL_WRITE and tag == _ACL_USER and number not in (0, user):
            return f"is writable by another user (uid {number}), by its access control list"
        if permissions & _ACL_WRITE and tag == _ACL_GROUP and number not in groups:
            return f"is writable by another group (gid {number}), by its access control list"
    return None


def _owner_problem(status: os.stat_result, user: int | None = None) -> str | None:
    """Returns ``belongs to another user``, unless the owner is root, the user, or the owner of ``/``.

    A user namespace may show the owner of ``/`` as uid 65534.
    """
    user = os.geteuid() if user is None else user
    if status.st_uid in (0, user, os.stat("/").st_uid):  # noqa: PTH116 - Path.stat is slower
        return None
    return f"belongs to another user (uid {status.st_uid})"


class PathStep(NamedTuple):
    """A folder or a link on the way to a file, or the file; ``is_last`` is whether nothing follows it."""

    path: str
    status: os.stat_result
    is_last: bool


def steps(path: str | os.PathLike[str]) -> Iterator[PathStep]:
    """Yields each folder and link of a path, then its end; stops at a missing one, and after 40 links."""
    try:
        left = [*reversed(Path(path).absolute().parts)]
    except FileNotFoundError:  # the working folder has been removed
        return
    step, links = "/", 0
    while left and links <= _MOST_LINKS:
        folder, step = step, os.path.normpath(os.path.join(step, left.pop()))  # noqa: PTH118 - many
        try:
            status = os.lstat(step)
            target = os.readlink(step) if stat.S_ISLNK(status.st_mode) else None  # noqa: PTH115 - many
        except (OSError, ValueError):  # a NUL
            return
        yield PathStep(step, status, not left and target is None)
        if target is not None:
            links += 1
            left += reversed(Path(target).parts)
            step = folder


def others_reach(path: str | os.PathLike[str]) -> str | None:
    """How another user can change what a path leads to, such as ``/a is writable by every user``; None if no other can.

    Every folder and link on the way counts, since a user who can replace one decides where the path leads. In a folder
    with the sticky bit, only owners can replace their entries. Missing parts do not count. A safe path stays safe,
    since only trusted users can change it.
    """
    if sys.platform == "win32":
        return None
    links = 0
    for step, status, is_last in steps(path):
        is_link = stat.S_ISLNK(status.st_mode)
        links += is_link
        is_replaced_by_owners = is_link or (status.st_mode & stat.S_ISVTX and not is_last)
        reason = _owner_problem(status) if is_replaced_by_owners else others_access(status, path=step)
        if reason or links > _MOST_LINKS:
            return f"{step} {reason or 'leads through too many links'}"
    return None


def own_folder(folder: Path | None, announce: Callable[[str], None]) -> Path | None:
    """A folder of the user's caches or data; None, with one message, if another user can change it."""
    reason = folder and others_reach(folder)
    if reason:
        announce(f"{folder} is not used: {reason}")
        return None
    return folder


_TEMPORARY_VARIABLES, _TEMPORARY_FOLDERS = ("TMPDIR", "TEMP", "TMP"), ("/tmp", "/var/tmp")  # noqa: S108 - as tempfile


def own_temporary_folder(environment: Mapping[str, str], announce: Callable[[str], None]) -> str | None:
    """The folder to use instead of one of the variables in which others can replace files; None if none is needed.

    It is announced.
    """
    chosen = next((name for name in _TEMPORARY_VARIABLES if _is_writable(environment.get(name))), None)
    reason = chosen and others_reach(Path(environment[chosen], "file"))
    own = (folder for folder in _TEMPORARY_FOLDERS if _is_writable(folder) and not others_reach(Path(folder, "file")))
    folder = next(own, None) if reason else None
    if chosen and folder:
        announce(f"{chosen}={environment[chosen]} is not used: {reason}; temporary files go to {folder}")
    return folder


def own_search_path(environment: Mapping[str, str], announce: Callable[[str], None]) -> str | None:
    """PATH without its relative entries, which are announced; None if it has none.

    A relative entry, such as an empty one, would run programs of the working folder.
    """
    entries = environment.get("PATH", "").split(os.pathsep)
    ignored = [entry for entry in entries if not entry.startswith(os.sep)]
    if sys.platform == "win32" or entries == [""] or not ignored:
        return None
    announce(f"PATH: entries that are not absolute are not searched: {', '.join(map(repr, ignored))}")
    return os.pathsep.join(entry for entry in entries if entry.startswith(os.sep))


def _is_writable(folder: str | None) -> bool:
    return folder is not None and is_folder(folder) and os.access(folder, os.W_OK | os.X_OK)


def read_own(path: Path, limit: int) -> bytes:
    """The content of a file that gpuenv wrote.

    Raises:
        OSError: as ``read_regular``, and for a link; a ``PermissionError`` for a file that another user can change.
    """
    if reason := others_reach(path):
        raise PermissionError(errno.EPERM, reason, os.fspath(path))
    return read_regular(path, limit, follow=False)


def make_private_folder(folder: Path) -> None:
    """Creates a folder and its missing parents, for this user only, with any umask.

    Raises:
        OSError: when one cannot be created.
    """
    if not folder.is_dir():
        make_private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def read_regular(path: str | os.PathLike[str], limit: int, *, follow: bool = True) -> bytes:
    """The content of a regular file; ``follow`` is whether to follow a symbolic link.

    Raises:
        OSError: when it cannot be read, is not a regular file, or has more than ``limit`` bytes.
    """
    descriptor = open_regular(path, follow=follow)
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


def updated_matrix(environment: Mapping[str, str]) -> Path | None:
    """The path of the published matrix that the user has taken, which need not exist."""
    folder = user_data(environment)
    return folder / "matrix.json" if folder else None


def checksum_of(matrix: Path) -> Path:
    """The file with the CRC-32 of a matrix that was validated when it was stored."""
    return matrix.with_name(f"{matrix.name}.crc32")


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
    if not home or not os.path.isabs(home):  # noqa: PTH117 - a text
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
