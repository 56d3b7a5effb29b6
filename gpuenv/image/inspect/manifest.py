"""Reads manifests, indexes and configurations of images from registries and folders.

OCI Image Format Specification 1.1 (Image Manifest, Image Index) and Docker's Image Manifest Version 2, Schema 2. An
index may contain an index, and an image in it may lack a platform.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gpuenv.image.inspect.image_facts import (
    ImageError,
    ImageFacts,
    ImagePlatform,
    facts_from_configuration,
    objects_in,
    platform_of,
)
from gpuenv.model.redaction import cut_text

MEDIA_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
MAX_MANIFEST = 4 << 20  # what a registry must be able to take (OCI Distribution Specification 1.1, Push)
MAX_CONFIGURATION = 6 << 20
_MAX_ENTRIES, _MAX_DEPTH, _MAX_SIZE = 1000, 4, 1 << 63
_UNTYPED = "application/octet-stream"  # of old registries' clients
_NAME_ANNOTATIONS = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")


@dataclass(frozen=True, slots=True)
class ImageStore:
    """Access to the blobs of an image by their digests; the source is ``registry`` or ``folder``."""

    source: str
    manifest: Callable[[str], bytes]
    configuration: Callable[[str], bytes]


def read_image(data: bytes, digest: str | None, wanted: ImagePlatform, subject: str, store: ImageStore) -> ImageFacts:
    """The facts of the image for a platform; if it is missing, of another platform's (the verdict reports that).

    ``data`` is the first manifest or index, with its digest if known; ``subject`` names the image in messages.

    Raises:
        ImageError: if it cannot be read.
    """
    offered: tuple[str, ...] = ()
    for _ in range(_MAX_DEPTH):
        manifest = _parse_manifest(data, subject)
        if "manifests" not in manifest:
            facts = _read_configuration(manifest, subject, store)
            return replace(facts, digest=digest, offered=offered, size=_size_of_layers(manifest.get("layers")))
        entries = index_entries(manifest)
        platforms = [platform_of(entry.get("platform")) for entry in entries]
        offered = tuple(dict.fromkeys(str(platform) for platform in platforms if platform)) or offered
        digest = _digest_of(_select(entries, platforms, wanted, subject), subject)
        data = store.manifest(digest)
    raise ImageError(f"{subject}: indexes inside indexes, more than {_MAX_DEPTH} of them")


def _parse_manifest(data: bytes, subject: str) -> dict[str, Any]:
    value = load_json(data, subject)
    if not isinstance(value, dict):
        raise ImageError(f"{subject}: is not a manifest: expected an object, found {type(value).__name__}")
    if value.get("schemaVersion") == 1:
        raise ImageError(
            f"{subject}: a manifest of schema 1, which engines no longer support",
            "push the image again with a current engine",
        )
    if not isinstance(value.get("manifests", []), list) or not ("manifests" in value or "config" in value):
        raise ImageError(f"{subject}: is not a manifest: it has neither manifests nor config")
    return value


def index_entries(index: dict[str, Any]) -> list[dict[str, Any]]:
    """The images of an index, without attestations."""
    return [entry for entry in objects_in(index["manifests"], _MAX_ENTRIES) if not _is_attestation(entry)]


def _is_attestation(entry: dict[str, Any]) -> bool:
    annotations, platform = entry.get("annotations"), entry.get("platform")
    unknown = isinstance(platform, dict) and "unknown" in (platform.get("os"), platform.get("architecture"))
    return unknown or (isinstance(annotations, dict) and "vnd.docker.reference.type" in annotations)


def image_name(entry: dict[str, Any]) -> str | None:
    """The name of an image in a layout: the annotation of containerd and Docker, or OCI's own."""
    annotations = entry.get("annotations")
    names = [annotations.get(key) for key in _NAME_ANNOTATIONS] if isinstance(annotations, dict) else []
    return next((name for name in names if isinstance(name, str) and name), None)


def _select(
    entries: list[dict[str, Any]], platforms: list[ImagePlatform | None], wanted: ImagePlatform, subject: str
) -> dict[str, Any]:
    """The entry for a platform, preferably of the same variant; else the first. A single entry needs no platform."""
    named = [(entry, platform) for entry, platform in zip(entries, platforms, strict=True) if platform is not None]
    fitting = [(entry, platform) for entry, platform in named if platform.serves(wanted)]
    exact = [pair for pair in fitting if pair[1] == wanted]
    for entry, _ in (*exact, *fitting, *named):
        return entry
    if not entries:
        raise ImageError(f"{subject}: an index without images")
    if len({str(entry.get("digest")) for entry in entries}) > 1:
        raise ImageError(f"{subject}: an index of {len(entries)} images without platforms")
    return entries[0]


def _read_configuration(manifest: dict[str, Any], subject: str, store: ImageStore) -> ImageFacts:
    config = manifest["config"] if isinstance(manifest["config"], dict) else {}
    digest, media_type = _digest_of(config, subject), str(config.get("mediaType") or _UNTYPED)
    if media_type != _UNTYPED and ".image." not in media_type:  # a chart, a signature, a model
        kind = cut_text(str(manifest.get("artifactType") or media_type), 80)
        raise ImageError(f"{subject}: is not a container image: its type is {kind}", is_input=True)
    return facts_from_configuration(load_json(store.configuration(digest), subject), subject, store.source)


def _digest_of(descriptor: dict[str, Any], subject: str) -> str:
    digest = descriptor.get("digest")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ImageError(f"{subject}: a descriptor without a sha256 or sha512 digest: {cut_text(str(digest), 80)!r}")
    return digest


def _size_of_layers(layers: object) -> int:
    """The sum of the valid sizes of layers."""
    sizes = [entry.get("size") for entry in objects_in(layers)]
    return sum(size for size in sizes if isinstance(size, int) and size is not True and 0 <= size < _MAX_SIZE)


def load_json(data: bytes, subject: str) -> Any:  # noqa: ANN401 - JSON
    """Parses untrusted JSON.

    Raises:
        ImageError: if it is invalid.
    """
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        if data.lstrip()[:1] == b"<":
            raise ImageError(
                f"{subject}: is a web page, not JSON: the server is not a registry",
                "check the name of the registry, and whether a proxy or a login page answers in its place",
            ) from error
        raise ImageError(f"{subject}: is not JSON: {str(error)[:120]}") from error


def compute_digest(data: bytes, algorithm: str = "sha256") -> str:
    """The digest of some bytes."""
    return f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"


def verify(data: bytes, digest: str, subject: str) -> bytes:
    """The bytes, if they have the digest.

    Raises:
        ImageError: if they have another digest.
    """
    if not _DIGEST.fullmatch(digest):
        raise ImageError(f"{subject}: {cut_text(digest, 80)!r} is not a digest of sha256 or sha512")
    found = compute_digest(data, digest.partition(":")[0])
    if found != digest:
        raise ImageError(f"{subject}: wrong content: its digest is {found}, expected {digest}")
    return data
