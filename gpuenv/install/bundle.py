"""Bundles: the wheels of an install, its lock and a manifest of digests, in one folder or one tar file.

A bundle is untrusted input: only the files that its manifest names are extracted, each a plain file below it, and each
with the content that the manifest states. The wheels are downloaded by a pip, since uv keeps none as files.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
import sysconfig
import tarfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from gpuenv import files
from gpuenv.install.backends.base import complaint, succeeded
from gpuenv.install.backends.pip import Pip
from gpuenv.install.backends.uv import Uv
from gpuenv.install.environment import Scheme, hex_digest
from gpuenv.install.errors import InstallError, InstallFailed, TargetUnusable, Unreadable
from gpuenv.install.installers import Caller, choose
from gpuenv.install.lockfile import parse_lock
from gpuenv.install.plan import Pin
from gpuenv.install.solver import remedy_of
from gpuenv.model.codec import DecodeError, decode, encode
from gpuenv.model.strings import error_reason

SCHEMA = "gpuenv.bundle/1"
MANIFEST = "manifest.json"
LOCK = "requirements.txt"
WHEELS = "wheels"
_PLACE = re.compile(r"(?:wheels/[A-Za-z0-9][\w.+!-]*\.whl|requirements\.txt|pylock\.toml|matrix\.yaml)")
_LARGEST_TEXT = 16 * 1024 * 1024
_CHUNK = 1024 * 1024
_OPTIONS = ("--no-deps", "--require-hashes", "--only-binary=:all:", "--progress-bar=off")


@dataclass(frozen=True, slots=True)
class BundledFile:
    """A file of a bundle: its place, SHA-256 and size in bytes."""

    path: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a bundle holds, and what it is for."""

    requirements: tuple[str, ...]  # the resolver's
    python: str  # such as ``3.11``
    platform: str  # such as ``linux-x86_64``
    gpuenv_version: str
    matrix_revision: str
    files: tuple[BundledFile, ...]  # every one but this
    schema: str = SCHEMA


class Bundle(NamedTuple):
    """A verified bundle: everything in it is what its manifest says; the folder of its wheels, and its lock."""

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
        BundledFile(path.relative_to(folder).as_posix(), hex_digest(str(path)), path.stat().st_size) for path in paths
    )
    text = json.dumps(encode(replace(manifest, files=files)), indent=2)
    (folder / MANIFEST).write_text(f"{text}\n", encoding="utf-8")


def pack(folder: Path, archive: Path) -> None:
    """Puts a bundle's folder into one tar file, without names of users or times in it.

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


def open_bundle(path: Path, scratch: Path) -> Bundle:
    """Verifies a bundle; of a tar file only what its manifest names is extracted below ``scratch``, in that size.

    Raises:
        Unreadable: when it is neither a folder nor a tar file.
        InstallError: with what does not match.
    """
    is_folder = files.is_folder(path)
    if not is_folder:  # a plain tar file, as ``pack`` writes it: a compressed one may be of any size once unpacked
        try:
            tarfile.open(path, "r:").close()
        except OSError as error:
            raise Unreadable(f"{path}: {error_reason(error)}") from error
        except tarfile.TarError as error:
            what = "a compressed tar file" if tarfile.is_tarfile(path) else "no tar file"
            raise Unreadable(f"{path}: {what}; expected a bundle, as gpuenv bundle writes it") from error
    try:
        folder, manifest = (path, _manifest_in(path)) if is_folder else (scratch, _unpacked(path, scratch))
        _compare(folder, manifest)
        # It is for one target: no marker in it says what is for which.
        return Bundle(manifest, folder / WHEELS, parse_lock(LOCK, _text(folder / LOCK), {}))
    except (OSError, tarfile.TarError, ValueError) as error:
        raise InstallError(f"{path}: {error_reason(error)}", "Make it anew with gpuenv bundle.") from error


def _unpacked(archive: Path, scratch: Path) -> Manifest:
    """The manifest comes first; every other member is a plain file that it names, in its place and in its size."""
    with tarfile.open(archive, "r:") as tar:
        manifest = _manifest(_first(tar))
        left = {file.path: file for file in manifest.files}
        for member in islice(tar, 1, None):
            place = member.name
            if not _is_plain(member) or not _PLACE.fullmatch(place):
                what = "has no place in a bundle" if _is_plain(member) else "is no plain file"
                raise ValueError(f"{place!r} {what}")
            file = left.pop(place, None)
            if file is None:
                raise ValueError(f"{place!r} is not in its manifest, or there twice")
            if member.size != file.size:
                raise ValueError(f"{place!r} is not what the manifest says")
            source = tar.extractfile(member)
            (scratch / place).parent.mkdir(exist_ok=True)
            with (scratch / place).open("xb") as to:
                shutil.copyfileobj(source or io.BytesIO(), to)
    return manifest


def _first(tar: tarfile.TarFile) -> str:
    """The text of the first member, which is the manifest's."""
    member = tar.next()
    if member is None or member.name != MANIFEST or not _is_plain(member):
        raise ValueError(f"its first file is no {MANIFEST}")
    if member.size > _LARGEST_TEXT:
        raise ValueError(f"{MANIFEST} is larger than any is")
    source = tar.extractfile(member)
    return source.read(_LARGEST_TEXT).decode("utf-8") if source is not None else ""


def _is_plain(member: tarfile.TarInfo) -> bool:
    """Whether a member is a file that is not sparse: a sparse one can be larger than the archive."""
    return member.isreg() and not member.issparse()


def _manifest_in(folder: Path) -> Manifest:
    path = folder / MANIFEST
    if path.is_symlink() or not path.is_file():
        raise ValueError(f"there is no {MANIFEST} in it")
    return _manifest(_text(path))


def _text(path: Path) -> str:
    if path.stat().st_size > _LARGEST_TEXT:
        raise ValueError(f"{path.name} is larger than any is")
    return path.read_text(encoding="utf-8")


def _manifest(text: str) -> Manifest:
    try:
        manifest = decode(Manifest, json.loads(text))
    except (ValueError, DecodeError, RecursionError) as error:
        raise ValueError(f"{MANIFEST}: {error}") from error
    if manifest.schema != SCHEMA:
        raise ValueError(f"{MANIFEST}: expected schema {SCHEMA}, found {manifest.schema!r}")
    odd = [file.path for file in manifest.files if not _PLACE.fullmatch(file.path)]
    if odd:
        raise ValueError(f"{odd[0]!r} has no place in a bundle")
    if len({file.path for file in manifest.files}) != len(manifest.files):
        raise ValueError("its manifest names a file twice")
    return manifest


def _compare(folder: Path, manifest: Manifest) -> None:
    """Compares a folder with its manifest: the same files, and no links."""
    there = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if not path.is_dir()}
    there.pop(MANIFEST, None)
    linked = [place for place, path in there.items() if path.is_symlink()]
    if linked or (folder / WHEELS).is_symlink():
        raise ValueError(f"{(linked or [WHEELS])[0]!r} is a link")
    named = {file.path: file for file in manifest.files}
    odd = sorted({*there} ^ {*named})
    if odd:
        raise ValueError(f"{odd[0]!r} is {'not in its manifest' if odd[0] in there else 'missing'}")
    for place, file in named.items():
        if there[place].stat().st_size != file.size or hex_digest(str(there[place])) != file.sha256:
            raise ValueError(f"{place!r} is not what the manifest says")


def download(
    caller: Caller,
    scheme: Scheme,
    places: tuple[Path, Path],
    announce: Callable[[str], None],
    words: tuple[str, ...] = (),
) -> None:
    """Downloads every wheel of a lock into a folder (``places``); pip checks the digests.

    ``words`` are options that make pip download for another machine.

    Raises:
        InstallFailed: when one cannot be had.
        TargetUnusable: when there is no pip.
    """
    pip = Pip(_program(caller, scheme), "")
    lock, folder = places
    command = [*pip.program, "download", *_OPTIONS, *words, "--dest", str(folder), "--requirement", str(lock)]
    announce("downloading the wheels")
    environment = pip.environment(caller.environment)
    # An index that is set for uv alone is the one that the lock came from.
    index = environment.get("UV_DEFAULT_INDEX") or environment.get("UV_INDEX_URL")
    result = caller.patience.run(command, {**({"PIP_INDEX_URL": index} if index else {}), **environment}, caller.group)
    if not succeeded(result):
        why = complaint(result)
        raise InstallFailed(
            f"the wheels could not be downloaded: {why}", remedy_of(why, replace(caller, installer=pip))
        )
    if not any(folder.iterdir()):
        raise InstallFailed("pip downloaded nothing")


def _program(caller: Caller, scheme: Scheme) -> tuple[str, ...]:
    """The target's pip, gpuenv's own, the one that Python itself brings, or one through uv."""
    target = ("--python", scheme.executable)
    try:
        found = choose("pip", scheme, caller.environment, time.monotonic() + caller.patience.left)
    except TargetUnusable:
        wheel = _bundled_pip()
        if wheel is not None:
            return (sys.executable, f"{wheel}/pip", *target)
        if not isinstance(caller.installer, Uv):
            raise
        return (caller.installer.program, "tool", "run", "--quiet", "--from", "pip", "pip", *target)
    return found.program if isinstance(found, Pip) else ()


def _bundled_pip() -> Path | None:
    """The wheel that ensurepip installs pip from; it can be run as it is."""
    elsewhere = sysconfig.get_config_var("WHEEL_PKG_DIR")
    spec = find_spec("ensurepip")
    folders = [Path(spec.origin).parent / "_bundled"] if spec is not None and spec.origin else []
    folders += [Path(elsewhere)] if elsewhere else []
    return next((wheel for folder in folders for wheel in sorted(folder.glob("pip-*.whl"))), None)
