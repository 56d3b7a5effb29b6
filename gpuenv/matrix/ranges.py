"""Whether a release is in a range of versions. Pure."""

from __future__ import annotations

from functools import lru_cache

from packaging.specifiers import SpecifierSet
from packaging.version import Version


@lru_cache(maxsize=4096)
def within(release: str, wanted: str) -> bool:
    """Whether a release is in a range such as ``>=13.5,<14``, pre-releases too.

    Raises:
        InvalidVersion: where it is no version.
    """
    return SpecifierSet(wanted).contains(Version(release), prereleases=True)
