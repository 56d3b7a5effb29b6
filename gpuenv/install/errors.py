"""What ends an install early."""

from __future__ import annotations


class InstallError(Exception):
    """Something went wrong; ``remedy`` says what to do."""

    def __init__(self, message: str, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


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
