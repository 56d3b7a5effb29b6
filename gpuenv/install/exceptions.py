"""Install errors, and remedies for the most common ones."""

from __future__ import annotations

import re

UNTOUCHED = "nothing was changed"
NO_VERSIONS = re.compile(r"from versions: none")  # pip: the index has no file, or cannot be reached
# Disk or network problems, which no setting of the installer causes.
DISK_OR_NETWORK = re.compile(
    r"No space left|network|connect|resolve host|dns|timed? ?out|name resolution|unreachable", re.IGNORECASE
)


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


def disk_failure(step: str, error: OSError) -> InstallFailed:
    """The error for a step that failed on a disk error."""
    message = disk_message(error)
    return InstallFailed(f"{step}: {message}", remedy_for(message))


def remedy_for(message: str) -> str | None:
    """The remedy for the most common failures, by the message."""
    if re.search(r"No space left", message):
        return "Free space on the disk of the environment, the cache or the temporary folder."
    if NO_VERSIONS.search(message):
        return "Check the network, proxy and index settings (pip config list): the index in use offers no such file."
    if re.search(r"hash", message, re.IGNORECASE):
        return (
            "The index served a different file than planned: try again; if it persists, ask the operator of the index."
        )
    if DISK_OR_NETWORK.search(message):
        return "Check the network, proxy and index settings; gpuenv bundle prepares an install without a network."
    return None
