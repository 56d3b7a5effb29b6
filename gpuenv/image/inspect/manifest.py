"""Manifests and indexes of images, as registries and folders hold them.

OCI Image Format Specification 1.1 (Image Manifest, Image Index) and Docker's Image Manifest Version 2, Schema 2.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from gpuenv.image.inspect.image_facts import ImageError, ImagePlatform

INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
CONFIGURATION_TYPES = (
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
    "application/octet-stream",  # of old registries' clients
)
_NOTHING = "application/vnd.oci.empty.v1+json"  # a configuration without content: artifactType says what it is
LARGEST_MANIFEST = 4 * 1024 * 1024  # what a registry must be able to take (OCI Distribution Specification 1.1, Push)
LARGEST_CONFIGURATION = 6 * 1024 * 1024
_PAGE = "is it the name of a registry, and does a proxy or a page for a login stand before it?"
_LARGEST_SIZE = 1 << 63
_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
_DIGEST = re.compile(r"(sha256):([0-9a-f]{64})|(sha512):([0-9a-f]{128})")
_MOST_ENTRIES = 1000


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Where a piece is found: its digest and its size in bytes."""

    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One image of an index."""

    descriptor: Descriptor
    platform: ImagePlatform


@dataclass(frozen=True, slots=True)
class Index:
    """The same image for several platforms, or in a file several images.

    Attributes:
        entries: those that say for which platform they are.
        unnamed: those that do not.
        names: of images, each with its digest, where there are any.
    """

    entries: tuple[Entry, ...]
    unnamed: tuple[Descriptor, ...] = ()
    names: tuple[tuple[str, str], ...] = ()

    def choose(self, wanted: ImagePlatform) -> Entry | None:
        """The image for a platform: the very variant first."""
        fitting = [entry for entry in self.entries if entry.platform.serves(wanted)]
        return next((entry for entry in fitting if entry.platform == wanted), fitting[0] if fitting else None)


@dataclass(frozen=True, slots=True)
class Manifest:
    """One image: its configuration, and the bytes of its layers as they are moved.

    Attributes:
        configuration: where that is.
        size: of the layers.
        other: the media type of what this is instead, where its configuration is none of an image's.
    """

    configuration: Descriptor
    size: int
    other: str | None = None


def load_json(data: bytes, what: str) -> Any:  # noqa: ANN401 - JSON
    """Parses foreign JSON.

    Raises:
        ImageError: for what is none, or is nested without end.
    """
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        page = data.lstrip()[:1] == b"<"
        why = " but a web page: something else than a registry answered" if page else f": {str(error)[:120]}"
        raise ImageError(f"{what}: is no JSON{why}", _PAGE if page else None) from error


def parse_manifest(data: bytes, what: str) -> Index | Manifest:
    """Reads a manifest or an index, recognised by its content.

    Raises:
        ImageError: for anything else, with what it is.
    """
    value = load_json(data, what)
    if not isinstance(value, dict):
        raise ImageError(f"{what}: is no manifest: expected an object, found {type(value).__name__}")
    if value.get("schemaVersion") == 1:
        raise ImageError(
            f"{what}: a manifest of schema 1, which engines no longer pull", "push the image anew with a current engine"
        )
    if isinstance(value.get("manifests"), list):
        return _index(value["manifests"], what)
    if isinstance(value.get("config"), dict):
        return Manifest(_descriptor(value["config"], what), _bytes_of(value.get("layers")), _kind(value))
    raise ImageError(f"{what}: is no manifest: it has neither manifests nor config")


def _bytes_of(layers: object) -> int:
    """The bytes of those layers that say how many they have."""
    entries = [entry for entry in layers if isinstance(entry, dict)] if isinstance(layers, list) else []
    sizes = [size for entry in entries if (size := _size(entry)) is not None]
    return sum(sizes)


def _kind(value: dict[str, Any]) -> str | None:
    """The media type of a manifest that is not of an image: of a chart, a signature, a list of parts."""
    media_type = value["config"].get("mediaType")
    if not isinstance(media_type, str) or not media_type or media_type in CONFIGURATION_TYPES:
        return None
    artifact = value.get("artifactType")
    return artifact if media_type == _NOTHING and isinstance(artifact, str) else media_type


def _index(entries: list[Any], what: str) -> Index:
    images = [entry for entry in entries[:_MOST_ENTRIES] if isinstance(entry, dict) and not _is_beside(entry)]
    found = [(_platform(entry), _descriptor(entry, what)) for entry in images]
    return Index(
        tuple(Entry(descriptor, platform) for platform, descriptor in found if platform is not None),
        tuple(descriptor for platform, descriptor in found if platform is None),
        tuple((name, str(entry["digest"])) for entry in images if (name := _name_of(entry)) is not None),
    )


def _name_of(entry: dict[str, Any]) -> str | None:
    """The name under which an archive has an image: containerd's and Docker's, or that of OCI's own specification."""
    annotations = entry.get("annotations")
    names = [annotations.get(key) for key in _NAMES] if isinstance(annotations, dict) else []
    return next((name for name in names if isinstance(name, str) and name), None)


def _is_beside(entry: dict[str, Any]) -> bool:
    """Whether this is an attestation, which builders list beside the images."""
    annotations, platform = entry.get("annotations"), entry.get("platform")
    unknown = isinstance(platform, dict) and "unknown" in (platform.get("os"), platform.get("architecture"))
    return unknown or (isinstance(annotations, dict) and "vnd.docker.reference.type" in annotations)


def _platform(entry: dict[str, Any]) -> ImagePlatform | None:
    platform = entry.get("platform")
    named = platform if isinstance(platform, dict) else {}
    os, architecture, variant = (named.get(key) for key in ("os", "architecture", "variant"))
    if not isinstance(os, str) or not isinstance(architecture, str):
        return None
    return ImagePlatform(os.lower(), architecture.lower(), variant if isinstance(variant, str) and variant else None)


def _descriptor(value: dict[str, Any], what: str) -> Descriptor:
    digest, size = value.get("digest"), _size(value)
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ImageError(f"{what}: a descriptor without a digest of sha256 or sha512: {str(digest)[:80]!r}")
    if size is None:
        raise ImageError(f"{what}: a descriptor without a size")
    return Descriptor(digest, size)


def _size(value: dict[str, Any]) -> int | None:
    """The bytes that a descriptor tells; none where that is no number of bytes."""
    size = value.get("size")
    return size if isinstance(size, int) and not isinstance(size, bool) and 0 <= size < _LARGEST_SIZE else None


def digest_of(data: bytes, like: str = "sha256:") -> str:
    """The digest of some bytes, by the algorithm of another digest."""
    name = like.partition(":")[0]
    return f"{name}:{hashlib.new(name, data).hexdigest()}"


def verify(data: bytes, digest: str, what: str) -> bytes:
    """The bytes, if they are the ones that the digest stands for.

    Raises:
        ImageError: where they are not.
    """
    if not _DIGEST.fullmatch(digest):
        raise ImageError(f"{what}: {digest[:80]!r} is no digest of sha256 or sha512")
    found = digest_of(data, digest)
    if found != digest:
        raise ImageError(f"{what}: wrong content: its digest is {found}, expected {digest}")
    return data
