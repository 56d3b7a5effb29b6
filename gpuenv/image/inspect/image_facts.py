"""Facts from an image's configuration: the few kilobytes without its layers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuenv.model.redaction import cut_text

_MAX_STEPS, _MAX_STEP = 500, 20_000
_ARCHITECTURES = {"x86_64": "amd64", "x64": "amd64", "aarch64": "arm64", "i386": "386", "i686": "386", "x86": "386"}
_PLATFORM = re.compile(r"([a-z0-9_]+)/([a-z0-9_]+)(?:/([a-z0-9_.]+))?")


class ImageError(Exception):
    """An image that cannot be examined.

    Attributes:
        remedy: the fix, if known.
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
        """Whether an image for this platform runs on a machine of the wanted platform; a missing variant fits any."""
        same = (self.os, self.architecture) == (wanted.os, wanted.architecture)
        return same and (None in (self.variant, wanted.variant) or self.variant == wanted.variant)


def parse_platform(text: str) -> ImagePlatform:
    """Parses ``linux/arm64``, ``arm64`` and ``x86_64``.

    Raises:
        ValueError: with what was expected.
    """
    low = text.strip().lower()
    match = _PLATFORM.fullmatch(low if "/" in low else f"linux/{low}")
    if match is None:
        raise ValueError(f"{text!r} is not a platform; expected one like linux/amd64 or linux/arm64/v8")
    return ImagePlatform(match[1], _ARCHITECTURES.get(match[2], match[2]), match[3])


def platform_of(value: object) -> ImagePlatform | None:
    """The platform in an entry of an index or in a configuration; None if it is missing or invalid."""
    parts = [value.get(name) for name in ("os", "architecture", "variant")] if isinstance(value, dict) else [None]
    if not all(isinstance(part, str) and part for part in parts[:2]):
        return None
    try:
        return parse_platform("/".join(part for part in parts if isinstance(part, str) and part))
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """An image for one platform.

    Attributes:
        reference: the user's reference.
        source: ``engine``, ``registry``, ``folder``, ``archive`` or ``dockerfile``.
        digest: the digest of its manifest; null if the source has none.
        platform: its platform, such as ``linux/amd64``; null if unknown.
        offered: every platform of the reference; empty if the source only has this one.
        history: the steps that made its layers; empty if the builder did not record them.
        size: bytes of the layers: compressed from a registry, unpacked from an engine.
        user: its user; null is root.
        frameworks: the frameworks that a Dockerfile installs, with the CUDA of their wheels; empty for a real image.
        perhaps: always empty; a part of ``gpuenv.image/1``.
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
        ImageError: if it is no configuration.
    """
    if not isinstance(data, dict) or not isinstance(data.get("os"), str) or not isinstance(data.get("rootfs"), dict):
        raise ImageError(f"{reference}: the configuration from the {source} is invalid: expected os and rootfs")
    config: dict[str, Any] = data["config"] if isinstance(data.get("config"), dict) else {}
    labels, layers, platform = config.get("Labels"), data["rootfs"].get("diff_ids"), platform_of(data)
    steps = [step.get("created_by") for step in objects_in(data.get("history"), _MAX_STEPS)]
    return ImageFacts(
        reference=reference,
        source=source,
        platform=str(platform) if platform else None,
        environment=_environment(config.get("Env")),
        labels={str(key): str(value) for key, value in labels.items()} if isinstance(labels, dict) else {},
        history=tuple(cut_text(text, _MAX_STEP) for step in steps if (text := _text(step))),
        layers=len(layers) if isinstance(layers, list) else None,
        user=_text(config.get("User")),
        created=_text(data.get("created")),
    )


def _environment(entries: object) -> dict[str, str]:
    """Variables from a list of ``NAME=value``; a later value replaces an earlier one."""
    texts = entries if isinstance(entries, list) else []
    pairs = (text.partition("=") for text in texts if isinstance(text, str))
    return {name: value for name, equals, value in pairs if equals and name}


def objects_in(value: object, most: int | None = None) -> list[dict[str, Any]]:
    """The objects among the first entries of a list; none in anything else."""
    return [entry for entry in value[:most] if isinstance(entry, dict)] if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
