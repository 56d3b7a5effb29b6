"""References to images: ``nvcr.io/nvidia/cuda:13.0.2-base-ubuntu24.04``, parsed as Docker does.

The grammar is that of distribution/reference (regexp.go, referencePat; reference.go, RepositoryNameTotalLengthMax; read
2026-11-21): a domain with a port, a path of parts in lower case, a tag of up to 128 characters, a digest. Of
digests only sha256 is accepted, and the domain counts into the 255 characters of a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gpuenv.model.redaction import cut_text

HUB = "docker.io"
_HUB_HOSTS = (HUB, "index.docker.io", "registry-1.docker.io")
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_DOMAIN = (
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\[[0-9a-fA-F:]+\])"
)
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_DOMAIN}(?::[0-9]+)?/)?{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_MAX_NAME = 255
_LONGEST = 80  # characters shown of a text
# A name of 64 hexadecimal digits is refused (distribution/reference, normalize.go, ParseNormalizedNamed).
_ID = re.compile(r"(?:sha256:)?[0-9a-f]{64}")
# containers-transports(5), read November 2026.
_TRANSPORT = re.compile(
    r"docker://|docker-daemon:(?://)?|containers-storage:|docker-archive:|oci-archive:|oci:|dir:|sif:|ostree:"
)


class ImageReferenceError(ValueError):
    """An invalid reference."""


@dataclass(frozen=True, slots=True)
class ImageReference:
    """``docker.io``, ``library/python`` and ``3.12-slim``; a digest takes precedence over a tag."""

    registry: str
    repository: str
    tag: str | None
    digest: str | None

    @property
    def selector(self) -> str:
        """The digest or tag to request from a registry; ``latest`` without either."""
        return self.digest or self.tag or "latest"

    @property
    def familiar(self) -> str:
        """Registry and repository as people write them: ``python``, ``nvidia/cuda``, ``nvcr.io/nvidia/cuda``."""
        if self.registry != HUB:
            return f"{self.registry}/{self.repository}"
        return self.repository.removeprefix("library/")

    def __str__(self) -> str:
        digest = f"@{self.digest}" if self.digest else ""
        tag = f":{self.tag}" if self.tag else ("" if digest else ":latest")
        return f"{self.familiar}{tag}{digest}"


def parse_reference(text: str) -> ImageReference:
    """Parses a reference as Docker does: without a registry it is one of Docker Hub.

    Raises:
        ImageReferenceError: with the problem.
    """
    match = _REFERENCE.fullmatch(text)
    if match is None or len(match["name"]) > _MAX_NAME:
        raise ImageReferenceError(f"{cut_text(text, _LONGEST)!r} is not a name of an image: {_problem(text)}")
    domain, slash, path = match["name"].partition("/")
    if not slash or not (re.search(r"[.:\[]", domain) or domain == "localhost" or domain != domain.lower()):
        domain, path = HUB, match["name"]
    if domain in _HUB_HOSTS:
        domain, path = HUB, path if "/" in path else f"library/{path}"
    return ImageReference(domain, path, match["tag"], match["digest"])


def is_image_id(text: str) -> bool:
    """Whether a text is the ID of an image, which is only valid in its engine."""
    return _ID.fullmatch(text) is not None


def digest_in(digests: Iterable[str], text: str) -> str | None:
    """The digest of an image under this name; an engine may have the image under several names.

    Args:
        digests: ``NAME@sha256:...``, as engines list them.
        text: a reference. Podman puts ``localhost/`` before one without a registry.
    """
    name = _name(text)
    if name is None:
        return None
    return next((entry.partition("@")[2] for entry in digests if _name(entry) in (name, f"localhost/{name}")), None)


def _name(text: str) -> str | None:
    """The name of a reference; none for an invalid one, such as ``<none>@<none>`` of an engine."""
    try:
        return parse_reference(text).familiar
    except ImageReferenceError:
        return None


def _problem(text: str) -> str:
    """Why a text is no reference."""
    if transport := _TRANSPORT.match(text):
        shown = cut_text(text.removeprefix(transport[0]), _LONGEST)
        return f"{transport[0]} is how skopeo and Podman write it; here it is {shown}"
    if text.startswith(("http://", "https://")):
        return "it is the address of a page; expected a name such as nvidia/cuda:TAG or nvcr.io/nvidia/pytorch:TAG"
    if any(sign in text for sign in "${}<>%"):
        return "it contains a variable or a placeholder that was not replaced"
    name, at, digest = text.partition("@")
    if at and not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        return "expected a digest after @: sha256: and 64 digits of 0-9 and a-f"
    path = name.rpartition(":")[0] if ":" in name.rpartition("/")[2] else name
    lower = text.replace(path, path.lower(), 1)
    if lower != text and _REFERENCE.fullmatch(lower):
        return f"expected lower case: {cut_text(lower, _LONGEST)}"
    return "expected name:tag, all but the tag in lower case"
