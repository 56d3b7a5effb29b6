"""Errors that end an install early, and what to do about the commonest."""

from __future__ import annotations

import re

UNTOUCHED = "nothing was changed"
NOTHING_THERE = re.compile(r"from versions: none")  # pip, of an index that has none of it, or is out of reach
# The disk or the network: no setting of what is installed.
SURROUNDINGS = re.compile(
    r"No space left|network|connect|resolve host|dns|timed? ?out|name resolution|unreachable", re.IGNORECASE
)


class InstallError(Exception):
    """An error, with what to do (``remedy``) and the state of the environment (``stands``)."""

    def __init__(self, message: str, remedy: str | None = None, stands: str = UNTOUCHED) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.stands = stands

    @property
    def untouched(self) -> bool:
        """Whether the environment is as it was."""
        return self.stands == UNTOUCHED


class TargetUnusable(InstallError):  # noqa: N818 - it says what is the matter
    """The target environment cannot be used."""


class Unreadable(InstallError):  # noqa: N818 - it says what is the matter
    """An input file cannot be read as what it should be."""


class NothingFits(InstallError):  # noqa: N818 - it says what is the matter
    """The requirements conflict with the environment."""


class InstallFailed(InstallError):  # noqa: N818 - it says what is the matter
    """The installer or the proof failed."""


class CacheAtFault(InstallFailed):
    """The staged files are damaged, perhaps in the installer's cache."""


class ConsentNeeded(InstallError):  # noqa: N818 - it says what is the matter
    """The user has to agree to something first."""


def disk_message(error: OSError) -> str:
    """The message of an error of the disk."""
    return f"{error.filename or 'the disk'}: {error.strerror or error}"


def disk_failure(what: str, error: OSError) -> InstallFailed:
    """The error for a step (``what``) that the disk did not let happen."""
    why = disk_message(error)
    return InstallFailed(f"{what}: {why}", remedy_for(why))


def remedy_for(why: str) -> str | None:
    """What to do about the commonest failures."""
    if re.search(r"No space left", why):
        return "Make room on the disk that the environment, the cache or the temporary folder is on."
    if NOTHING_THERE.search(why):
        return "Look at the network, proxy and index settings (pip config list): the index in use gives nothing for it."
    if re.search(r"hash", why, re.IGNORECASE):
        return "The index gave another file than was planned: try again, and if it stays so, ask who runs the index."
    if SURROUNDINGS.search(why):
        return "Look at the network, proxy and index settings; gpuenv bundle prepares an install without a network."
    return None
