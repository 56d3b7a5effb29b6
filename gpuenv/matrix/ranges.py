"""Whether a release is a version, and in a range of them."""

from __future__ import annotations

from functools import lru_cache

from packaging.specifiers import SpecifierSet
from packaging.version import Version


@lru_cache(maxsize=4096)
def within(release: str, wanted: str) -> bool:
    """Whether a release is in a range such as ``>=13.5,<14``, pre-releases too.

    Raises:
        ValueError: where it is no version.
    """
    return _specifiers(wanted).contains(version_of(release), prereleases=True)


def in_range(release: str, wanted: str) -> bool | None:
    """Whether a release is in a range, as ``within``; None where it is no version."""
    try:
        return within(release, wanted)
    except ValueError:  # InvalidVersion, or more digits than int takes
        return None


@lru_cache(maxsize=1024)
def version_of(release: str) -> Version:
    """A release as a version, to be compared: the same few are asked for many times.

    Raises:
        ValueError: where it is none; of more digits than int takes, no InvalidVersion.
    """
    return Version(release)


@lru_cache(maxsize=1024)
def _specifiers(wanted: str) -> SpecifierSet:
    return SpecifierSet(wanted)


def is_version(text: str) -> bool:
    """Whether a text is the version of a package."""
    try:
        Version(text)
    except ValueError:  # InvalidVersion, or more digits than int takes
        return False
    return True


def same_release(one: str, other: str) -> bool:
    """Whether two spellings are of one version: ``1.0`` and ``1.0.0`` are."""
    try:
        return version_of(one) == version_of(other)
    except ValueError:  # InvalidVersion, or more digits than int takes
        return one == other
