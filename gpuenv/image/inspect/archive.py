"""An image in a folder or a file: an OCI layout, or what ``docker save`` writes. Nothing is unpacked."""

from __future__ import annotations

import lzma
import os
import tarfile
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path, PurePosixPath

from gpuenv.archives import ArchiveError, is_plain, open_tar
from gpuenv.image.inspect.file_kinds import kind_of
from gpuenv.image.inspect.image_facts import ImageError, ImageFacts, ImagePlatform, facts_from_configuration
from gpuenv.image.inspect.manifest import (
    LARGEST_CONFIGURATION,
    LARGEST_MANIFEST,
    Descriptor,
    Index,
    load_json,
    parse_manifest,
    verify,
)
from gpuenv.image.inspect.manifest_walk import ImageStore, image_of
from gpuenv.model.strings import error_reason

_MOST_NAMES = 8
Reader = Callable[[str, int], bytes | None]
# What tarfile lets through of a file that is damaged, or made to be: its numbers, names behind names, and the streams
# that it is compressed with.
_DAMAGED = (tarfile.TarError, EOFError, ValueError, OverflowError, RecursionError, zlib.error, lzma.LZMAError)


def is_archive(text: str) -> bool:
    """Whether what was named is a file or a folder, rather than a reference."""
    return os.path.exists(text)  # noqa: PTH110 - a name that is too long, or holds a null, is no file either


def read_archive(path: Path, wanted: ImagePlatform) -> ImageFacts:
    """The image for a platform.

    Raises:
        ImageError: with the path and what was expected.
    """
    try:
        with ExitStack() as stack:
            read = _folder(path) if path.is_dir() else _tar(stack, path)
            return _image(read, str(path), wanted)
    except ArchiveError as error:
        raise ImageError(f"{path}: {error}", _EXPECTED, is_input=True) from error
    except tarfile.ReadError as error:  # its own words list every compression that was tried
        what, remedy = kind_of(path) or ("no tar file, or a damaged one", _EXPECTED)
        raise ImageError(f"{path}: {what}", remedy, is_input=True) from error
    except (OSError, *_DAMAGED) as error:
        raise ImageError(
            f"{path}: cannot be read as an image: {error_reason(error)}", _EXPECTED, is_input=True
        ) from error
    except ImageError as error:
        raise ImageError(str(error), error.remedy or _EXPECTED, is_input=True) from error


_EXPECTED = (
    "expected an OCI layout (a folder or a tar file), or what docker save writes; "
    "a Dockerfile or a compose file is named by --dockerfile; an image is named NAME:latest where a file has its name"
)
_ALONE = "docker save -o FILE NAME writes one of them alone"


def _folder(path: Path) -> Reader:
    def read(name: str, most: int) -> bytes | None:
        file = path / name
        if not file.is_file() or not file.resolve().is_relative_to(path.resolve()):
            return None
        with file.open("rb") as opened:
            return _bounded(opened.read(most + 1), most, f"{path}: {name}")

    return read


def _tar(stack: ExitStack, path: Path) -> Reader:
    if not path.is_file():  # a pipe tells its content once, and a tar file is read to and fro
        raise ImageError(f"{path}: is neither a folder nor a regular file")
    archive = stack.enter_context(open_tar(path))
    # Links are left out: docker save links layers, never what is read.
    members = {str(PurePosixPath(member.name)): member for member in archive if is_plain(member)}

    def read(name: str, most: int) -> bytes | None:
        member = members.get(name)
        return None if member is None else _bounded(archive.data(member).read(most + 1), most, f"{path}: {name}")

    return read


def _bounded(data: bytes, most: int, what: str) -> bytes:
    if len(data) > most:
        raise ImageError(f"{what}: larger than the {most} bytes that it may have")
    return data


def _image(read: Reader, what: str, wanted: ImagePlatform) -> ImageFacts:
    index = read("index.json", LARGEST_MANIFEST)
    if index is not None:
        return _of_layout(read, index, what, wanted)
    listing = read("manifest.json", LARGEST_MANIFEST)
    if listing is None:
        raise ImageError(f"{what}: neither index.json nor manifest.json is in it")
    listed = load_json(listing, what)
    return _of_save(read, listed, what) if isinstance(listed, list) else _of_copy(read, listing, what, wanted)


def _of_layout(read: Reader, data: bytes, what: str, wanted: ImagePlatform) -> ImageFacts:
    """OCI Image Layout 1.1: index.json lists what is there, by its names where it has several."""
    found = parse_manifest(data, what)
    if isinstance(found, Index):
        _refuse_several(dict(found.names), what)
    store = ImageStore(
        lambda descriptor: _piece(read, _blob(descriptor), descriptor, LARGEST_MANIFEST, what),
        lambda descriptor: _piece(read, _blob(descriptor), descriptor, LARGEST_CONFIGURATION, what),
        "folder",
    )
    return image_of(data, None, wanted, what, store)


def _blob(descriptor: Descriptor) -> str:
    return f"blobs/{descriptor.digest.replace(':', '/')}"


def _of_copy(read: Reader, data: bytes, what: str, wanted: ImagePlatform) -> ImageFacts:
    """What ``skopeo copy ... dir:FOLDER`` writes: pieces by their digests, those of an index with a suffix."""
    store = ImageStore(
        lambda descriptor: _piece(read, f"{_bare(descriptor)}.manifest.json", descriptor, LARGEST_MANIFEST, what),
        lambda descriptor: _piece(read, _bare(descriptor), descriptor, LARGEST_CONFIGURATION, what),
        "folder",
    )
    return image_of(data, None, wanted, what, store)


def _bare(descriptor: Descriptor) -> str:
    return descriptor.digest.partition(":")[2]


def _piece(read: Reader, name: str, descriptor: Descriptor, most: int, what: str) -> bytes:
    data = read(name, most)
    if data is None:
        raise ImageError(f"{what}: {descriptor.digest} is not in it")
    return verify(data, descriptor.digest, what)


def _of_save(read: Reader, listed: list[object], what: str) -> ImageFacts:
    """``docker save``: manifest.json lists images, each with the name of its configuration."""
    entries = [entry for entry in listed if isinstance(entry, dict)]
    _refuse_several({_tag_of(entry): str(entry.get("Config")) for entry in entries}, what)
    name = entries[0].get("Config") if entries else None
    if not isinstance(name, str):
        raise ImageError(f"{what}: manifest.json names no configuration")
    configuration = read(str(PurePosixPath(name)), LARGEST_CONFIGURATION)
    if configuration is None:
        raise ImageError(f"{what}: {name[:80]} is not in it")
    return facts_from_configuration(load_json(configuration, what), what, "archive")


def _tag_of(entry: dict[str, object]) -> str:
    """The first name of an image, or its configuration's where it has none."""
    tags = entry.get("RepoTags")
    return str(tags[0] if isinstance(tags, list) and tags else entry.get("Config"))


def _refuse_several(digests: dict[str, str], what: str) -> None:
    """Refuses an archive of several images, since it is not clear which one is meant.

    Raises:
        ImageError: where the names are of several images.
    """
    if len(set(digests.values())) > 1:
        names = [name[:80] for name in digests]
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        raise ImageError(f"{what}: holds several images: {', '.join(names[:_MOST_NAMES])}{more}", _ALONE)
