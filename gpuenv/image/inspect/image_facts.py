"""Facts from an image's configuration: the few kilobytes without its layers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_MOST_HISTORY = 500
_LONGEST_LINE = 20_000


class ImageError(Exception):
    """An image that cannot be examined.

    Attributes:
        remedy: what to do.
        is_input: whether the caller's input is wrong, rather than the registry or engine.
    """

    def __init__(self, message: str, remedy: str | None = None, *, is_input: bool = False) -> None:
        super().__init__(message)
        self.remedy = remedy
        self.is_input = is_input


@dataclass(frozen=True, slots=True)
class ImagePlatform:
    """The platform of an image, in the terms of the image specifications: ``linux``, ``amd64``, ``v8``."""

    os: str
    architecture: str
    variant: str | None = None

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)

    def serves(self, wanted: ImagePlatform) -> bool:
        """Whether an image for this platform runs on a machine of another; arm64 alone means its variant v8."""
        same = (self.os, self.architecture) == (wanted.os, wanted.architecture)
        return same and (None in (self.variant, wanted.variant) or self.variant == wanted.variant)


_ARCHITECTURES = {"x86_64": "amd64", "x64": "amd64", "aarch64": "arm64", "i386": "386", "i686": "386", "x86": "386"}
_PLATFORM = re.compile(r"([a-z0-9_]+)/([a-z0-9_]+)(?:/([a-z0-9_.]+))?")


def parse_platform(text: str) -> ImagePlatform:
    """Reads ``linux/arm64``, ``arm64`` and ``x86_64``.

    Raises:
        ValueError: with what was expected.
    """
    low = text.strip().lower()
    match = _PLATFORM.fullmatch(low if "/" in low else f"linux/{low}")
    if match is None:
        raise ValueError(f"{text!r} is no platform; expected one like linux/amd64 or linux/arm64/v8")
    return ImagePlatform(match[1], _ARCHITECTURES.get(match[2], match[2]), match[3])


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """An image for one platform.

    Attributes:
        reference: as it was named.
        source: ``engine``, ``registry``, ``folder``, ``archive`` or ``dockerfile``.
        digest: of its manifest; null where the source has none.
        platform: what it is built for: ``linux/amd64``; null where it does not say.
        offered: every platform that the reference has; empty where the source knows this one alone.
        environment: the variables that it sets.
        labels: its labels.
        history: the step behind each layer, as the builder wrote it down; empty where it did not.
        size: bytes of the layers: compressed from a registry, unpacked from an engine.
        layers: how many there are.
        user: who its process runs as; null is root.
        created: when.
        frameworks: those that a Dockerfile installs, with the CUDA that their wheels are of; a layer tells none.
        perhaps: what of these and of CuPy may not be there at all: it is installed in a condition.
    """

    reference: str
    source: str
    digest: str | None = None
    platform: str | None = None
    offered: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    history: tuple[str, ...] = ()
    size: int | None = None
    layers: int | None = None
    user: str | None = None
    created: str | None = None
    frameworks: Mapping[str, str] = field(default_factory=dict)
    perhaps: tuple[str, ...] = ()


def facts_from_configuration(data: object, reference: str, source: str) -> ImageFacts:
    """The facts in an image's configuration (OCI Image Format Specification 1.1, Image Configuration).

    Raises:
        ImageError: for what is no configuration.
    """
    if not isinstance(data, dict) or not isinstance(data.get("os"), str) or not isinstance(data.get("rootfs"), dict):
        raise ImageError(f"{reference}: what the {source} gave as its configuration is none: expected os and rootfs")
    inner = data.get("config")
    config: dict[str, Any] = inner if isinstance(inner, dict) else {}
    layers = data["rootfs"].get("diff_ids")
    return ImageFacts(
        reference=reference,
        source=source,
        platform=_platform(data),
        environment=environment_of(config.get("Env")),
        labels=_texts(config.get("Labels")),
        history=_history(data.get("history")),
        layers=len(layers) if isinstance(layers, list) else None,
        user=_text(config.get("User")) or None,
        created=_text(data.get("created")) or None,
    )


def _platform(data: Mapping[str, Any]) -> str | None:
    """The platform of a configuration; none if it is invalid."""
    parts = (data["os"], _text(data.get("architecture")), _text(data.get("variant")))
    try:
        return str(parse_platform("/".join(part for part in parts if part))) if parts[0] and parts[1] else None
    except ValueError:
        return None


def environment_of(entries: object) -> dict[str, str]:
    """Variables from a list of ``NAME=value``; the last of a name wins."""
    texts = [entry for entry in entries if isinstance(entry, str)] if isinstance(entries, list) else []
    return {name: value for name, equals, value in (text.partition("=") for text in texts) if equals and name}


def _texts(value: object) -> dict[str, str]:
    return {str(key): str(entry) for key, entry in value.items()} if isinstance(value, dict) else {}


def _history(entries: object) -> tuple[str, ...]:
    steps = entries[:_MOST_HISTORY] if isinstance(entries, list) else []
    made = [_text(step.get("created_by")) for step in steps if isinstance(step, dict)]
    return tuple(text[:_LONGEST_LINE] for text in made if text)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
