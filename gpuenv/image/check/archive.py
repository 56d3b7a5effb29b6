"""An image in a folder or a file: an OCI layout, or what ``docker save`` writes. Nothing is unpacked."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path, PurePosixPath

from gpuenv.image.check.facts import ImageError, ImageFacts, Platform, of_configuration
from gpuenv.image.check.manifest import (
    LARGEST_CONFIGURATION,
    LARGEST_MANIFEST,
    Descriptor,
    Index,
    Manifest,
    load_json,
    parse_manifest,
    verify,
)
from gpuenv.image.check.registry import chosen
from gpuenv.model.record import replace
from gpuenv.model.unread import reason_of

_MOST_MEMBERS = 100_000
_DEEPEST = 4
Reader = Callable[[str, int], bytes | None]


def is_archive(text: str) -> bool:
    """Whether what was named is a file or a folder, rather than a reference."""
    return os.path.exists(text)  # noqa: PTH110 - a name that is too long, or holds a null, is no file either


def read_archive(path: Path, wanted: Platform) -> ImageFacts:
    """The image for a platform.

    Raises:
        ImageError: with the path and what was expected.
    """
    try:
        with ExitStack() as stack:
            read = _folder(path) if path.is_dir() else _tar(stack, path)
            return _image(read, str(path), wanted)
    except tarfile.ReadError as error:  # its own words list every compression that was tried
        raise ImageError(f"{path}: no tar file, or a damaged one", _EXPECTED, is_input=True) from error
    except (OSError, tarfile.TarError, EOFError) as error:
        raise ImageError(f"{path}: cannot be read as an image: {reason_of(error)}", _EXPECTED, is_input=True) from error
    except ImageError as error:
        raise ImageError(str(error), error.remedy or _EXPECTED, is_input=True) from error


_EXPECTED = (
    "expected an OCI layout (a folder or a tar file), or what docker save writes; "
    "a Dockerfile or a compose file is named by --dockerfile; an image is named NAME:latest where a file has its name"
)


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
    archive = stack.enter_context(tarfile.open(path))  # noqa: SIM115 - the stack closes it
    members: dict[str, tarfile.TarInfo] = {}
    for number, member in enumerate(archive):
        if number >= _MOST_MEMBERS:
            raise ImageError(f"{path}: more than {_MOST_MEMBERS} entries")
        members[str(PurePosixPath(member.name))] = member

    def read(name: str, most: int) -> bytes | None:
        member = members.get(name)
        if member is not None and (member.issym() or member.islnk()):  # docker save links layers, never what is read
            member = None
        opened = archive.extractfile(member) if member is not None and member.isfile() else None
        return None if opened is None else _bounded(opened.read(most + 1), most, f"{path}: {name}")

    return read


def _bounded(data: bytes, most: int, what: str) -> bytes:
    if len(data) > most:
        raise ImageError(f"{what}: larger than the {most} bytes that it may have")
    return data


def _image(read: Reader, what: str, wanted: Platform) -> ImageFacts:
    index = read("index.json", LARGEST_MANIFEST)
    if index is not None:
        return _of_layout(read, index, what, wanted)
    listing = read("manifest.json", LARGEST_MANIFEST)
    if listing is None:
        raise ImageError(f"{what}: neither index.json nor manifest.json is in it")
    return _of_save(read, listing, what)


def _of_layout(read: Reader, data: bytes, what: str, wanted: Platform) -> ImageFacts:
    """OCI Image Layout 1.1: the index may name an index, and a single image may stand there without its platform."""
    offered: tuple[str, ...] = ()
    digest = None
    for _ in range(_DEEPEST):
        found = parse_manifest(data, what)
        if isinstance(found, Manifest):
            return _configured(read, found, (digest, offered), what)
        offered = tuple(dict.fromkeys(str(entry.platform) for entry in found.entries)) or offered
        descriptor = _next(found, wanted, what)
        digest = descriptor.digest
        data = _blob(read, descriptor, LARGEST_MANIFEST, what)
    raise ImageError(f"{what}: indexes inside indexes")


def _next(index: Index, wanted: Platform, what: str) -> Descriptor:
    """An archive of a single image has it without its platform."""
    if not index.entries and len(index.unnamed) == 1:
        return index.unnamed[0]
    return chosen(index, wanted, what).descriptor


def _blob(read: Reader, descriptor: Descriptor, most: int, what: str) -> bytes:
    algorithm, _, digest = descriptor.digest.partition(":")
    data = read(f"blobs/{algorithm}/{digest}", most)
    if data is None:
        raise ImageError(f"{what}: {descriptor.digest} is not in it")
    return verify(data, descriptor.digest, what)


def _configured(read: Reader, manifest: Manifest, place: tuple[str | None, tuple[str, ...]], what: str) -> ImageFacts:
    data = _blob(read, manifest.configuration, LARGEST_CONFIGURATION, what)
    told = of_configuration(load_json(data, what), what, "folder")
    digest, offered = place
    return replace(told, digest=digest, offered=offered, size=manifest.size)


def _of_save(read: Reader, data: bytes, what: str) -> ImageFacts:
    """``docker save``: manifest.json lists images, each with the name of its configuration."""
    listed = load_json(data, what)
    first = listed[0] if isinstance(listed, list) and listed else None
    name = first.get("Config") if isinstance(first, dict) else None
    if not isinstance(name, str):
        raise ImageError(f"{what}: manifest.json names no configuration")
    configuration = read(str(PurePosixPath(name)), LARGEST_CONFIGURATION)
    if configuration is None:
        raise ImageError(f"{what}: {name[:80]} is not in it")
    return of_configuration(load_json(configuration, what), what, "archive")
