"""Names of images, as a registry reads them.

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
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# A name of 64 hexadecimal digits is refused (distribution/reference, normalize.go, ParseNormalizedNamed).
_IDENTITY = re.compile(r"(?:sha256:)?[0-9a-f]{64}")
# containers-transports(5), read November 2026.
_TRANSPORT = re.compile(
    r"docker://|docker-daemon:(?://)?|containers-storage:|docker-archive:|oci-archive:|oci:|dir:|sif:|ostree:"
)


class ImageNameError(ValueError):
    """A text that no registry takes for the name of an image."""


def split(text: str) -> tuple[str, str | None, str | None]:
    """Name, tag and digest of an image.

    Raises:
        ImageNameError: for what is no name.
    """
    match = _REFERENCE.fullmatch(text)
    if match is None or len(match["name"]) > _LONGEST:
        raise ImageNameError(f"{text[:80]!r} is no name of an image: {_why(text)}")
    return match["name"], match["tag"], match["digest"]


def is_identity(text: str) -> bool:
    """Whether it is the ID of an image, which only the engine that has it knows."""
    return _IDENTITY.fullmatch(text) is not None


def _why(text: str) -> str:
    """What is wrong with it, if that is clear."""
    if transport := _TRANSPORT.match(text):
        bare = text.removeprefix(transport[0])
        return f"{transport[0]} is how skopeo and Podman write it; here it is {bare[:80]}"
    if text.startswith(("http://", "https://")):
        return "it is the address of a page; expected a name such as nvidia/cuda:TAG or nvcr.io/nvidia/pytorch:TAG"
    if any(sign in text for sign in "${}<>%"):
        return "it holds a variable or a placeholder that nothing has replaced"
    name, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        return "behind @ a digest is expected: sha256: and 64 digits of 0-9 and a-f"
    lower = name.rpartition(":")[0] if ":" in name.rpartition("/")[2] else name
    if lower != lower.lower() and _REFERENCE.fullmatch(text.replace(lower, lower.lower(), 1)):
        return f"expected lower case: {text.replace(lower, lower.lower(), 1)[:80]}"
    return "expected name:tag, all but the tag in lower case"
