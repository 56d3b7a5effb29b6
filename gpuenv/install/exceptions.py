"""Install errors, and remedies for the most common ones."""

from __future__ import annotations

import errno
import re

UNTOUCHED = "nothing was changed"
NO_VERSIONS = re.compile(r"from versions: none")  # pip: the index has no file, or cannot be reached
# The messages of uv 0.13.9 and pip 23.2.1 to 26.3 for the faults of a real file system and of a server on loopback.
DISK_FULL = re.compile(r"No space left|Disk quota exceeded|os error (?:28|122)\b|Errno (?:28|122)\b")
REFUSED = re.compile(r"\b401\b|\b403\b|lack of valid authentication credentials")
DAMAGED = re.compile(
    r"hash|invalid package format|structure of .* was invalid|end of file before message|IncompleteRead"
    r"|error decoding response body|Failed to (?:extract archive|read metadata)|has an invalid wheel",
    re.IGNORECASE,
)
_OUT_OF_TIME = re.compile(r"--install-timeout")
_SERVER_ERROR = re.compile(r"HTTP status server error|\b50\d Server Error|HTTP error 50\d|50\d error responses")
_NETWORK = re.compile(r"network|connect|resolve host|dns|timed? ?out|name resolution|unreachable", re.IGNORECASE)


class InstallError(Exception):
    """An error with a remedy, and the resulting state of the environment."""

    def __init__(self, message: str, remedy: str | None = None, state: str = UNTOUCHED) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.state = state

    @property
    def untouched(self) -> bool:
        """Whether the environment is unchanged."""
        return self.state == UNTOUCHED


class TargetUnusable(InstallError):  # noqa: N818 - the name states the problem
    """The target environment cannot be used."""


class Unreadable(InstallError):  # noqa: N818 - the name states the problem
    """An input file cannot be parsed."""


class NothingFits(InstallError):  # noqa: N818 - the name states the problem
    """The requirements conflict with the environment."""


class InstallFailed(InstallError):  # noqa: N818 - the name states the problem
    """The installer or the verification failed."""


class DamagedCache(InstallFailed):
    """The staged files are damaged, perhaps in the installer's cache."""


class ConsentNeeded(InstallError):  # noqa: N818 - the name states the problem
    """The user has to consent first."""


def disk_message(error: OSError) -> str:
    """The message of a disk error."""
    return f"{error.filename or 'the disk'}: {error.strerror or error}"


def disk_remedy(error: OSError) -> str | None:
    """The remedy for a disk error in the environment."""
    return _DISK_REMEDIES.get(error.errno or 0) or remedy_for(disk_message(error))


def disk_failure(step: str, error: OSError) -> InstallFailed:
    """The error for a step that failed on a disk error in the environment."""
    message = disk_message(error)
    return InstallFailed(f"{step}: {message}", disk_remedy(error))


_MOUNTED = "Something is mounted there, so files cannot be moved: install where the environment has no mounts in it."
_DISK_REMEDIES = {  # rename(2)
    errno.EACCES: "Make yourself the owner of all files of the environment, or install into one of your own.",
    errno.EPERM: "Check that file and its folder: ls -l shows other owners, lsattr an attribute against changes.",
    errno.EBUSY: _MOUNTED,
    errno.EXDEV: _MOUNTED,
}
_REFUSED_REMEDY = (
    "The index refuses the request: check its address, and its credentials there, in ~/.netrc or in a keyring."
)
_DAMAGED_REMEDY = (
    "The index served a different or an incomplete file: try again; if it persists, ask the operator of the index or "
    "of the proxy."
)
_REMEDIES = (  # the first that matches, and whether the user's settings cannot be the cause
    (_OUT_OF_TIME, True, "Give the installer more time: --install-timeout SECONDS."),
    (DISK_FULL, True, "Free space on the disk of the environment, the cache or the temporary folder."),
    (REFUSED, True, _REFUSED_REMEDY),
    (_SERVER_ERROR, True, "The index has an error of its own: try again later, or ask its operator."),
    (
        NO_VERSIONS,
        False,
        "Check the network, proxy and index settings (pip config list): the index in use offers no such file.",
    ),
    (DAMAGED, True, _DAMAGED_REMEDY),
    (
        _NETWORK,
        True,
        "Check the network, proxy and index settings; gpuenv bundle prepares an install without a network.",
    ),
)


def remedy_for(message: str) -> str | None:
    """The remedy for the most common failures, by the message."""
    return next((remedy for pattern, _, remedy in _REMEDIES if pattern.search(message)), None)


def is_external(message: str) -> bool:
    """Whether a failure comes from the disk, the network or the index, not from the installer's settings."""
    return next((external for pattern, external, _ in _REMEDIES if pattern.search(message)), False)
