"""What ends an install early."""

from __future__ import annotations

import re

UNTOUCHED = "nothing was changed"
NOTHING_THERE = re.compile(r"from versions: none")  # pip's word for an index that has none of it, or is out of reach
# The disk or the network: no setting of what is installed.
SURROUNDINGS = re.compile(
    r"No space left|network|connect|resolve host|dns|timed? ?out|name resolution|unreachable", re.IGNORECASE
)


def told_of_disk(error: OSError) -> str:
    """What the disk refused, and why."""
    return f"{error.filename or 'the disk'}: {error.strerror or error}"


def cut_short(error: BaseException) -> str:
    """What ended an install that nobody had thought of; an interrupt above all."""
    return "interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__


class InstallError(Exception):
    """Something went wrong; ``remedy`` says what to do, ``stands`` how the environment is now."""

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
    """What the caller gave cannot be read as what it should be."""


class NothingFits(InstallError):  # noqa: N818 - it says what is the matter
    """What is wanted cannot be had together with what is there."""


class InstallFailed(InstallError):  # noqa: N818 - it says what is the matter
    """The installer or the proof failed."""


class CacheAtFault(InstallFailed):
    """What the installer has put together is not whole: its cache may hold the damage."""


class ConsentNeeded(InstallError):  # noqa: N818 - it says what is the matter
    """The caller has to agree to something first."""


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
