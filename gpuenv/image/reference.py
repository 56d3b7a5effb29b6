"""Names of images, as a registry reads them. Pure.

The grammar is that of distribution/reference (regexp.go, referencePat; reference.go, RepositoryNameTotalLengthMax; read
2026-11-21): a domain with a port, a path of parts in lower case, a tag of up to 128 characters, a digest; of digests
this one takes sha256 alone, and it counts the domain into the 255 characters of a name.
"""

from __future__ import annotations

import re

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_DOMAIN = (
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\[[0-9a-fA-F:]+\])"
)
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_DOMAIN}(?::[0-9]+)?/)?{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_LONGEST = 255


class ImageNameError(ValueError):
    """A text that no registry takes for the name of an image."""


def split(text: str) -> tuple[str, str | None, str | None]:
    """Name, tag and digest of an image.

    Raises:
        ImageNameError: for what is no name.
    """
    match = _REFERENCE.fullmatch(text)
    if match is None or len(match["name"]) > _LONGEST:
        raise ImageNameError(f"{text[:80]!r} is no name of an image: expected name:tag, all but the tag in lower case")
    return match["name"], match["tag"], match["digest"]
