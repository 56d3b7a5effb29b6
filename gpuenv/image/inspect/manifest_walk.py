"""Selects one image from a manifest or an index, wherever its blobs are kept.

An index may name an index (OCI Image Format Specification 1.1, Image Index), and an image in it may not say for which
platform it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gpuenv.image.inspect.image_facts import ImageError, ImageFacts, ImagePlatform, facts_from_configuration
from gpuenv.image.inspect.manifest import Descriptor, Entry, Index, Manifest, load_json, parse_manifest

_DEEPEST = 4


@dataclass(frozen=True, slots=True)
class ImageStore:
    """Access to the blobs of an image.

    Attributes:
        manifest: gives the manifest or index of a descriptor.
        configuration: gives the configuration of a descriptor.
        source: what these are of, as it is shown.
    """

    manifest: Callable[[Descriptor], bytes]
    configuration: Callable[[Descriptor], bytes]
    source: str


def image_of(data: bytes, digest: str | None, wanted: ImagePlatform, what: str, store: ImageStore) -> ImageFacts:
    """The image for a platform.

    Args:
        data: the manifest or index at the beginning.
        digest: of it, where it has one.
        wanted: the platform.
        what: the image, as it is shown.
        store: where the rest is.

    Raises:
        ImageError: where there is none.
    """
    offered: tuple[str, ...] = ()
    for _ in range(_DEEPEST):
        found = parse_manifest(data, what)
        if isinstance(found, Manifest):
            facts = _facts_of(found, store, what)
            return replace(facts, digest=digest, offered=offered, size=found.size)
        offered = tuple(dict.fromkeys(str(entry.platform) for entry in found.entries)) or offered
        descriptor = _next(found, wanted, what)
        digest, data = descriptor.digest, store.manifest(descriptor)
    raise ImageError(f"{what}: indexes inside indexes, more than {_DEEPEST} of them")


def _facts_of(found: Manifest, store: ImageStore, what: str) -> ImageFacts:
    data = store.configuration(found.configuration)
    try:
        return facts_from_configuration(load_json(data, what), what, store.source)
    except ImageError as error:
        if found.other is None:
            raise
        raise ImageError(f"{what}: is no container image: it is of type {found.other[:80]}", is_input=True) from error


def _next(index: Index, wanted: ImagePlatform, what: str) -> Descriptor:
    """The one for the platform; a single one need not say for which it is."""
    alone = tuple(dict.fromkeys(index.unnamed))
    if index.entries or not alone:
        return chosen_entry(index, wanted, what).descriptor
    if len(alone) > 1:
        raise ImageError(f"{what}: an index of {len(alone)} images, none of which says for which platform it is")
    return alone[0]


def chosen_entry(index: Index, wanted: ImagePlatform, what: str) -> Entry:
    """The image of an index for a platform, else one for another platform, which the verdict reports.

    Raises:
        ImageError: for an index without images.
    """
    entry = index.choose(wanted) or (index.entries[0] if index.entries else None)
    if entry is None:
        raise ImageError(f"{what}: an index without any image")
    return entry
