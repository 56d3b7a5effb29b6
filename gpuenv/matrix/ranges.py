"""Versions of releases and version ranges."""

from __future__ import annotations

from functools import lru_cache

from packaging.specifiers import SpecifierSet
from packaging.version import Version


@lru_cache(maxsize=4096)
def within(release: str, wanted: str) -> bool:
    """Whether a release is in a range such as ``>=13.5,<14``, pre-releases too.

    Raises:
        ValueError: it is not a version.
    """
    return _specifiers(wanted).contains(version_of(release), prereleases=True)


def in_range(release: str, wanted: str) -> bool | None:
    """Whether a release is in a range, as ``within``; None if it is not a version."""
    try:
        return within(release, wanted)
    except ValueError:  # InvalidVersion, or more digits than int accepts
        return None


@lru_cache(maxsize=1024)
def version_of(release: str) -> Version:
    """Returns a release as a version; cached.

    Raises:
        ValueError: it is not a version; not always InvalidVersion, as with more digits than int accepts.
    """
    return Version(release)


@lru_cache(maxsize=1024)
def _specifiers(wanted: str) -> SpecifierSet:
    return SpecifierSet(wanted)


def is_version(text: str) -> bool:
    """Whether a text is the version of a package."""
    try:
        Version(text)
    except ValueError:  # InvalidVersion, or more digits than int accepts
        return False
    return True


def same_release(one: str, other: str) -> bool:
    """Whether two spellings are the same version, such as ``1.0`` and ``1.0.0``."""
    try:
        return version_of(one) == version_of(other)
    except ValueError:  # InvalidVersion, or more digits than int accepts
        return one == other
