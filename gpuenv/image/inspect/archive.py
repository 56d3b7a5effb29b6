"""Reads an image from a folder or a file: an OCI layout, or the output of ``docker save``. Nothing is extracted."""

from __future__ import annotations

import lzma
import tarfile
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import Any

from gpuenv.archives import ArchiveError, is_plain, open_tar
from gpuenv.image.inspect.image_facts import ImageError, ImageFacts, ImagePlatform, facts_from_configuration, objects_in
from gpuenv.image.inspect.manifest import (
    MAX_CONFIGURATION,
    MAX_MANIFEST,
    ImageStore,
    image_name,
    index_entries,
    load_json,
    read_image,
    verify,
)
from gpuenv.model.redaction import cut_text
from gpuenv.model.strings import Lines, error_reason

_MAX_NAMES = 8
_Read = Callable[[str, int], "bytes | None"]  # a file by its name, of a limited size; none if it is missing
# The exceptions of tarfile for a damaged or malicious file: of its numbers, its links and its compression.
_DAMAGED = (tarfile.TarError, EOFError, ValueError, OverflowError, RecursionError, zlib.error, lzma.LZMAError)
_EXPECTED = Lines(
    (
        "expected an OCI layout (a folder or a tar file), or what docker save writes",
        "for a Dockerfile or a compose file: gpuenv check-image --dockerfile FILE",
        "for an image that has the name of a file here: gpuenv check-image NAME:latest",
        "for a file of Apptainer or enroot (.sif, .sqsh), name the image that it was made from",
    )
)


def read_archive(path: Path, wanted: ImagePlatform) -> ImageFacts:
    """The image for a platform.

    Raises:
        ImageError: with the path and what was expected.
    """
    try:
        with ExitStack() as stack:
            return _read_image(_folder_reader(path) if path.is_dir() else _tar_reader(stack, path), str(path), wanted)
    except ArchiveError as error:
        raise ImageError(f"{path}: {error}", _EXPECTED, is_input=True) from error
    except tarfile.ReadError as error:  # its own message lists every compression that was tried
        raise ImageError(f"{path}: not a tar file, or a damaged one", _EXPECTED, is_input=True) from error
    except (OSError, *_DAMAGED) as error:
        message = f"{path}: cannot be read as an image: {error_reason(error)}"
        raise ImageError(message, _EXPECTED, is_input=True) from error
    except ImageError as error:
        raise ImageError(str(error), error.remedy or _EXPECTED, is_input=True) from error


def _folder_reader(path: Path) -> _Read:
    def read(name: str, limit: int) -> bytes | None:
        file = path / name
        if not file.is_file() or not file.resolve().is_relative_to(path.resolve()):
            return None
        with file.open("rb") as opened:
            return _limited(opened.read(limit + 1), limit, f"{path}: {name}")

    return read


def _tar_reader(stack: ExitStack, path: Path) -> _Read:
    if not path.is_file():  # a tar file is read back and forth, which a pipe does not allow
        raise ImageError(f"{path}: is neither a folder nor a regular file")
    archive = stack.enter_context(open_tar(path))
    # Links are left out: docker save links layers, never what is read.
    members = {str(PurePosixPath(member.name)): member for member in archive if is_plain(member)}

    def read(name: str, limit: int) -> bytes | None:
        member = members.get(name)
        return None if member is None else _limited(archive.data(member).read(limit + 1), limit, f"{path}: {name}")

    return read


def _limited(data: bytes, limit: int, subject: str) -> bytes:
    if len(data) > limit:
        raise ImageError(f"{subject}: larger than {limit} bytes, the limit")
    return data


def _read_image(read: _Read, subject: str, wanted: ImagePlatform) -> ImageFacts:
    index = read("index.json", MAX_MANIFEST)
    if index is not None:
        return _read_layout(read, index, subject, wanted)
    listing = read("manifest.json", MAX_MANIFEST)
    if listing is None:
        raise ImageError(f"{subject}: it contains neither index.json nor manifest.json")
    return _read_saved(read, load_json(listing, subject), subject)


def _read_layout(read: _Read, data: bytes, subject: str, wanted: ImagePlatform) -> ImageFacts:
    """Reads an OCI Image Layout 1.1: index.json lists the images, several of them by name."""

    def read_blob(digest: str, limit: int) -> bytes:
        blob = read(f"blobs/{digest.replace(':', '/')}", limit)
        if blob is None:
            raise ImageError(f"{subject}: {digest} is missing")
        return verify(blob, digest, subject)

    index = load_json(data, subject)
    if isinstance(index, dict) and isinstance(index.get("manifests"), list):
        named = {name: entry.get("digest") for entry in index_entries(index) if (name := image_name(entry))}
        _refuse_several(named, subject)
    store = ImageStore(
        "folder", lambda digest: read_blob(digest, MAX_MANIFEST), lambda digest: read_blob(digest, MAX_CONFIGURATION)
    )
    return read_image(data, None, wanted, subject, store)


def _read_saved(read: _Read, listing: object, subject: str) -> ImageFacts:
    """Reads the output of ``docker save``: manifest.json lists images with the names of their configurations."""
    entries = objects_in(listing)
    _refuse_several({_saved_name(entry): entry.get("Config") for entry in entries}, subject)
    name = entries[0].get("Config") if entries else None
    if not isinstance(name, str):
        raise ImageError(f"{subject}: manifest.json names no configuration")
    configuration = read(str(PurePosixPath(name)), MAX_CONFIGURATION)
    if configuration is None:
        raise ImageError(f"{subject}: {cut_text(name, 80)} is missing")
    return facts_from_configuration(load_json(configuration, subject), subject, "archive")


def _saved_name(entry: dict[str, Any]) -> str:
    """The first tag of an image, or its configuration if it has none."""
    tags = entry.get("RepoTags")
    return str(tags[0] if isinstance(tags, list) and tags else entry.get("Config"))


def _refuse_several(images: dict[str, object], subject: str) -> None:
    """Refuses an archive of several images, since it is not clear which one is meant."""
    if len(set(map(str, images.values()))) > 1:
        names = ", ".join(cut_text(name, 80) for name in [*images][:_MAX_NAMES])
        more = f" and {len(images) - _MAX_NAMES} more" if len(images) > _MAX_NAMES else ""
        raise ImageError(
            f"{subject}: contains several images: {names}{more}", "docker save -o FILE NAME saves a single image"
        )
