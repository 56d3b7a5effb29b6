"""The name of an image in full: which registry, which repository, and which of its images."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gpuenv.image import reference
from gpuenv.image.inspect.image_facts import ImageError

HUB = "docker.io"
_HUB_NAMES = ("docker.io", "index.docker.io", "registry-1.docker.io")


@dataclass(frozen=True, slots=True)
class ImageName:
    """``docker.io``, ``library/python`` and ``3.12-slim``; a digest goes before a tag."""

    registry: str
    repository: str
    tag: str | None
    digest: str | None

    @property
    def selector(self) -> str:
        """The tag or digest to request from a registry; ``latest`` without either."""
        return self.digest or self.tag or "latest"

    @property
    def familiar(self) -> str:
        """The repository as people write it: ``python``, ``nvidia/cuda``, ``nvcr.io/nvidia/cuda``."""
        if self.registry != HUB:
            return f"{self.registry}/{self.repository}"
        return self.repository.removeprefix("library/")

    def __str__(self) -> str:
        digest = f"@{self.digest}" if self.digest else ""
        tag = f":{self.tag}" if self.tag else ("" if digest else ":latest")
        return f"{self.familiar}{tag}{digest}"


def parse_name(text: str) -> ImageName:
    """Reads a reference as Docker does.

    Raises:
        ImageError: for what is none.
    """
    try:
        path, tag, digest = reference.split(text)
    except reference.ImageNameError as error:
        raise ImageError(str(error), is_input=True) from error
    first, slash, rest = path.partition("/")
    if not slash or not (re.search(r"[.:\[]", first) or first == "localhost" or first != first.lower()):
        first, rest = HUB, path
    if first in _HUB_NAMES:
        return ImageName(HUB, rest if "/" in rest else f"library/{rest}", tag, digest)
    return ImageName(first, rest, tag, digest)


def digest_in(digests: Iterable[str], text: str) -> str | None:
    """The digest of an image under its own name, of all under which an engine has it.

    Args:
        digests: ``NAME@sha256:...``, as engines list them.
        text: the name that is meant. Podman puts ``localhost/`` before one without a registry.
    """
    own = _familiar(text)
    if own is None:
        return None
    names = (own, f"localhost/{own}")
    return next((entry.partition("@")[2] for entry in digests if _familiar(entry) in names), None)


def _familiar(text: str) -> str | None:
    """The repository of a name; none for what is no name, as engines write of an image that has lost its own."""
    try:
        return parse_name(text).familiar
    except ImageError:
        return None
