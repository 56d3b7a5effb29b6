"""Bundles: the wheels of an install, its lock and a manifest of digests, in one folder or one tar file.

A bundle from somebody else is input: nothing but the files that its manifest names is taken out of it, each is a plain
file below it, and each is what the manifest says.
"""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from pathlib import Path
from typing import IO

from gpuenv.install.errors import InstallError, Unreadable
from gpuenv.install.locking import parse_lock
from gpuenv.install.records import Pin
from gpuenv.model.codec import DecodeError, decode, encode
from gpuenv.model.record import dataclass
from gpuenv.model.unread import reason_of

SCHEMA = "gpuenv.bundle/1"
MANIFEST = "manifest.json"
LOCK = "requirements.txt"
WHEELS = "wheels"
_PLACE = re.compile(r"(?:wheels/[A-Za-z0-9][\w.+!-]*\.whl|requirements\.txt|pylock\.toml|matrix\.yaml)")
_LARGEST_TEXT = 16 * 1024 * 1024
_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class BundledFile:
    """A file of a bundle: its place, SHA-256 and size in bytes."""

    path: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a bundle holds, and what it is for.

    Attributes:
        requirements: the resolver's.
        python: the Python that its wheels are for, such as ``3.11``.
        platform: ``linux-x86_64`` and so on.
        gpuenv_version: who made it.
        matrix_revision: the matrix that was used.
        files: every file but this one.
    """

    requirements: tuple[str, ...]
    python: str
    platform: str
    gpuenv_version: str
    matrix_revision: str
    files: tuple[BundledFile, ...]
    schema: str = SCHEMA


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that was looked through: everything in it is what its manifest says.

    Attributes:
        manifest: what it is.
        wheels: the folder with its wheels.
        pins: its lock.
    """

    manifest: Manifest
    wheels: Path
    pins: tuple[Pin, ...]


def write_bundle(folder: Path, manifest: Manifest) -> None:
    """Writes the manifest of a folder that holds the files already.

    Raises:
        OSError: when a file cannot be read or written.
    """
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = tuple(
        BundledFile(path.relative_to(folder).as_posix(), _digest(path), path.stat().st_size) for path in paths
    )
    whole = Manifest(
        manifest.requirements,
        manifest.python,
        manifest.platform,
        manifest.gpuenv_version,
        manifest.matrix_revision,
        files,
    )
    (folder / MANIFEST).write_text(json.dumps(encode(whole), indent=2) + "\n", encoding="utf-8")


def pack(folder: Path, archive: Path) -> None:
    """Puts a bundle's folder into one tar file, without anybody's name or time in it.

    Raises:
        OSError: when it cannot be written.
    """
    with tarfile.open(archive, "w") as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                info = tarfile.TarInfo(path.relative_to(folder).as_posix())
                info.size, info.mode = path.stat().st_size, 0o644
                with path.open("rb") as file:
                    tar.addfile(info, file)


def open_bundle(given: Path, scratch: Path) -> Bundle:
    """Looks a bundle through; a tar file is unpacked below ``scratch`` as far as its manifest goes.

    Raises:
        Unreadable: when it is neither a folder nor a tar file.
        InstallError: with what does not match.
    """
    if not given.is_dir():
        _expect_archive(given)
    try:
        folder = given if given.is_dir() else _unpacked(given, scratch)
        manifest = _manifest(folder, given)
        _compare(folder, manifest, given)
        lock = (folder / LOCK).read_text(encoding="utf-8")
        return Bundle(manifest, folder / WHEELS, parse_lock(LOCK, lock))
    except (OSError, tarfile.TarError, ValueError) as error:
        raise InstallError(f"{given}: {reason_of(error)}", "Make it anew with gpuenv bundle.") from error


def _expect_archive(given: Path) -> None:
    try:
        is_archive = tarfile.is_tarfile(given)
    except OSError as error:
        raise Unreadable(f"{given}: {reason_of(error)}") from error
    if not is_archive:
        raise Unreadable(f"{given}: no tar file; expected a bundle, as gpuenv bundle writes it")


def _unpacked(archive: Path, scratch: Path) -> Path:
    """Every member is looked at before its bytes are: a place of ours, a plain file, and each place once."""
    seen: set[str] = set()
    with tarfile.open(archive, "r:*") as tar:
        for member in tar:
            place = member.name
            if not member.isreg() or place in seen or not (_PLACE.fullmatch(place) or place == MANIFEST):
                what = "is no plain file" if not member.isreg() else "has no place in a bundle"
                raise ValueError(f"{place!r} {what}")
            seen.add(place)
            source = tar.extractfile(member)
            if source is not None:
                (scratch / place).parent.mkdir(exist_ok=True)
                _copy(source, scratch / place, member.size)
    return scratch


def _copy(source: IO[bytes], to: Path, size: int) -> None:
    left = size
    with to.open("xb") as file:
        while left > 0 and (chunk := source.read(min(_CHUNK, left))):
            file.write(chunk)
            left -= len(chunk)


def _manifest(folder: Path, given: Path) -> Manifest:
    path = folder / MANIFEST
    if path.is_symlink() or not path.is_file() or path.stat().st_size > _LARGEST_TEXT:
        raise ValueError(f"there is no {MANIFEST} in it")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        manifest = decode(Manifest, data)
    except (DecodeError, RecursionError) as error:
        raise ValueError(f"{MANIFEST}: {error}") from error
    if manifest.schema != SCHEMA:
        raise ValueError(f"{MANIFEST}: expected schema {SCHEMA}, found {manifest.schema!r}")
    odd = [file.path for file in manifest.files if not _PLACE.fullmatch(file.path)]
    if odd:
        raise ValueError(f"{given.name}: {odd[0]!r} has no place in a bundle")
    return manifest


def _compare(folder: Path, manifest: Manifest, given: Path) -> None:
    """What is there is what the manifest names, no more and no less."""
    del given
    there = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if not path.is_dir()}
    linked = [place for place, path in there.items() if path.is_symlink()]
    if linked or (folder / WHEELS).is_symlink():
        raise ValueError(f"{(linked or [WHEELS])[0]!r} is a link")
    told = {file.path: file for file in manifest.files}
    if len(told) != len(manifest.files):
        raise ValueError("its manifest names a file twice")
    odd = sorted({*there, MANIFEST} ^ {*told, MANIFEST})
    if odd:
        raise ValueError(f"{odd[0]!r} is {'not in its manifest' if odd[0] in there else 'missing'}")
    for place, file in told.items():
        if there[place].stat().st_size != file.size or _digest(there[place]) != file.sha256:
            raise ValueError(f"{place!r} is not what the manifest says")


def _digest(path: Path) -> str:
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            sha.update(chunk)
    return sha.hexdigest()
