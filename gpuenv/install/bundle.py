"""Bundles: the wheels of an install, its lock and a manifest of digests, in one folder or one tar file.

A bundle is untrusted input: only files that its manifest lists are extracted, each a regular file with the listed size
and digest. pip downloads the wheels, since uv does not keep them as files.
"""

from __future__ import annotations

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
from pathlib import Path
from typing import NamedTuple

from gpuenv import files
from gpuenv.archives import ArchiveError, TarReader, is_compressed, is_plain, open_tar
from gpuenv.files import LARGEST_DOCUMENT
from gpuenv.install.backends.base import complaint, succeeded
from gpuenv.install.backends.pip import Pip
from gpuenv.install.backends.uv import Uv
from gpuenv.install.environment import Scheme, hex_digest
from gpuenv.install.exceptions import (
    InstallError,
    InstallFailed,
    NothingFits,
    TargetUnusable,
    Unreadable,
    disk_message,
    remedy_for,
)
from gpuenv.install.installer_config import InstallerRun, select_installer
from gpuenv.install.lockfile import parse_lock
from gpuenv.install.plan import Pin
from gpuenv.install.solver import remedy_of
from gpuenv.model.codec import DecodeError, decode, encode
from gpuenv.model.strings import error_reason

SCHEMA = "gpuenv.bundle/1"
MANIFEST = "manifest.json"
LOCK = "requirements.txt"
WHEELS = "wheels"
_PATH = re.compile(r"(?:wheels/[A-Za-z0-9][\w.+!-]*\.whl|requirements\.txt|pylock\.toml|matrix\.yaml)")
_NAME = re.compile(r"^[\w.-]+=")  # before the address of an index, only for uv
_LARGEST_TEXT = LARGEST_DOCUMENT
_CHUNK = 1024 * 1024
_OPTIONS = ("--no-deps", "--require-hashes", "--only-binary=:all:", "--progress-bar=off")


@dataclass(frozen=True, slots=True)
class BundledFile:
    """A file of a bundle: its path, SHA-256 and size in bytes."""

    path: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class BundleManifest:
    """The contents of a bundle, and its target platform."""

    requirements: tuple[str, ...]  # the resolver's
    python: str  # such as ``3.11``
    platform: str  # such as ``linux-x86_64``
    gpuenv_version: str
    matrix_revision: str
    files: tuple[BundledFile, ...]  # all except the manifest
    schema: str = SCHEMA


class Bundle(NamedTuple):
    """A verified bundle, with the folder of its wheels and the pins of its lock."""

    manifest: BundleManifest
    wheels: Path
    pins: tuple[Pin, ...]


def write_bundle(folder: Path, manifest: BundleManifest) -> None:
    """Writes the manifest of a folder with the files of a bundle.

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
    """Packs a bundle's folder into a tar file, without user names and times.

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
    """Verifies a bundle; extracts the listed files of a tar file to ``scratch``.

    Raises:
        Unreadable: when it is neither a folder nor a tar file.
        InstallError: when something does not match.
    """
    is_folder = files.is_folder(path)
    if not is_folder:  # uncompressed, as ``pack`` writes it: a compressed one may unpack to any size
        try:
            if is_compressed(path):
                raise Unreadable(f"{path}: a compressed file; expected a bundle written by gpuenv bundle")
            with open_tar(path):
                pass
        except OSError as error:
            raise Unreadable(f"{path}: {error_reason(error)}") from error
        except (tarfile.TarError, RecursionError) as error:
            found = str(error) if isinstance(error, ArchiveError) else "not a tar file"
            raise Unreadable(f"{path}: {found}; expected a bundle written by gpuenv bundle") from error
    try:
        folder, manifest = (path, _manifest_in(path)) if is_folder else (scratch, _unpacked(path, scratch))
        _compare(folder, manifest)
        # A bundle is for one target, so its lock has no markers.
        pins = parse_lock(LOCK, _text(folder / LOCK), {})
        sizes = {file.sha256: file.size for file in manifest.files}
        sized = (replace(pin, size=next(filter(None, map(sizes.get, pin.sha256)), None)) for pin in pins)
        return Bundle(manifest, folder / WHEELS, tuple(sized))
    except (FileNotFoundError, tarfile.TarError, RecursionError, ValueError) as error:
        raise InstallError(f"{path}: {error_reason(error)}", "Create it again: gpuenv bundle") from error
    except OSError as error:
        message = f"{path} could not be {'read' if is_folder else 'unpacked'}: {disk_message(error)}"
        raise InstallFailed(message, remedy_for(message)) from error


def open_bundle_for(scheme: Scheme, path: Path, scratch: Path) -> Bundle:
    """Verifies a bundle as ``open_bundle`` does, and that it is for this target.

    Raises:
        NothingFits: when it is for another Python or platform.
        InstallError: when something does not match.
    """
    bundle = open_bundle(path, scratch)
    manifest = bundle.manifest
    if (manifest.python, manifest.platform) != (scheme.minor, scheme.platform):
        raise NothingFits(
            f"{path} is for Python {manifest.python} on {manifest.platform}, "
            f"and the target is Python {scheme.minor} on {scheme.platform}",
            "Create one on a machine like this: gpuenv bundle",
        )
    return bundle


def _unpacked(archive: Path, scratch: Path) -> BundleManifest:
    """Extracts a tar file: the manifest first, then regular files that it lists, with their sizes."""
    with open_tar(archive) as tar:
        members = iter(tar)
        manifest = _manifest(_first(tar, next(members, None)))
        left = {file.path: file for file in manifest.files}
        for member in members:
            path = member.name
            if not is_plain(member) or not _PATH.fullmatch(path):
                problem = "does not belong in a bundle" if is_plain(member) else "is not a regular file"
                raise ValueError(f"{path!r} {problem}")
            file = left.pop(path, None)
            if file is None:
                raise ValueError(f"{path!r} is not in its manifest, or is a duplicate")
            if member.size != file.size:
                raise ValueError(f"{path!r} does not match the manifest")
            (scratch / path).parent.mkdir(exist_ok=True)
            with (scratch / path).open("xb") as to:
                shutil.copyfileobj(tar.data(member), to)
    return manifest


def _first(tar: TarReader, member: tarfile.TarInfo | None) -> str:
    """The text of the manifest, which must be the first member."""
    if member is None or member.name != MANIFEST or not is_plain(member):
        raise ValueError(f"its first file is not {MANIFEST}")
    if member.size > _LARGEST_TEXT:
        raise ValueError(f"{MANIFEST} is too large")
    return tar.data(member).read(_LARGEST_TEXT).decode("utf-8")


def _manifest_in(folder: Path) -> BundleManifest:
    path = folder / MANIFEST
    if path.is_symlink() or not path.is_file():
        raise ValueError(f"there is no {MANIFEST} in it")
    return _manifest(_text(path))


def _text(path: Path) -> str:
    if path.stat().st_size > _LARGEST_TEXT:
        raise ValueError(f"{path.name} is too large")
    return path.read_text(encoding="utf-8")


def _manifest(text: str) -> BundleManifest:
    try:
        manifest = decode(BundleManifest, json.loads(text))
    except (ValueError, DecodeError, RecursionError) as error:
        raise ValueError(f"{MANIFEST}: {error}") from error
    if manifest.schema != SCHEMA:
        raise ValueError(f"{MANIFEST}: expected schema {SCHEMA}, found {manifest.schema!r}")
    odd = [file.path for file in manifest.files if not _PATH.fullmatch(file.path)]
    if odd:
        raise ValueError(f"{odd[0]!r} does not belong in a bundle")
    if len({file.path for file in manifest.files}) != len(manifest.files):
        raise ValueError("its manifest names a file twice")
    return manifest


def _compare(folder: Path, manifest: BundleManifest) -> None:
    """Checks that a folder has exactly the files of its manifest, and no links."""
    present = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if not path.is_dir()}
    present.pop(MANIFEST, None)
    linked = [name for name, path in present.items() if path.is_symlink()]
    if linked or (folder / WHEELS).is_symlink():
        raise ValueError(f"{(linked or [WHEELS])[0]!r} is a link")
    named = {file.path: file for file in manifest.files}
    odd = sorted({*present} ^ {*named})
    if odd:
        raise ValueError(f"{odd[0]!r} is {'not in its manifest' if odd[0] in present else 'missing'}")
    for path, file in named.items():
        if present[path].stat().st_size != file.size or hex_digest(str(present[path])) != file.sha256:
            raise ValueError(f"{path!r} does not match the manifest")


def download(
    installer_run: InstallerRun,
    scheme: Scheme,
    paths: tuple[Path, Path],
    announce: Callable[[str], None],
    options: tuple[str, ...] = (),
) -> None:
    """Downloads the wheels of a lock; pip checks the digests.

    ``paths`` are the lock and the folder; ``options`` make pip download for another machine.

    Raises:
        InstallFailed: when a download fails.
        TargetUnusable: when there is no pip.
    """
    pip = Pip(_program(installer_run, scheme), "")
    lock, folder = paths
    command = [*pip.program, "download", *_OPTIONS, *options, "--dest", str(folder), "--requirement", str(lock)]
    announce("downloading the wheels")
    environment = pip.environment(installer_run.environment)
    # An index configured for uv only is the one that the lock came from.
    index = environment.get("UV_DEFAULT_INDEX") or environment.get("UV_INDEX_URL")
    result = installer_run.time_budget.run(
        command, {**({"PIP_INDEX_URL": _NAME.sub("", index)} if index else {}), **environment}, installer_run.group
    )
    if not succeeded(result):
        why = complaint(result)
        raise InstallFailed(
            f"the wheels could not be downloaded: {why}", remedy_of(why, replace(installer_run, installer=pip))
        )
    if not any(folder.iterdir()):
        raise InstallFailed("pip downloaded nothing")


def _program(installer_run: InstallerRun, scheme: Scheme) -> tuple[str, ...]:
    """The target's pip, gpuenv's own, the one in ensurepip, or one run by uv."""
    target = ("--python", scheme.executable)
    try:
        found = select_installer(
            "pip", scheme, installer_run.environment, time.monotonic() + installer_run.time_budget.left
        )
    except TargetUnusable:
        wheel = _bundled_pip()
        if wheel is not None:
            return (sys.executable, f"{wheel}/pip", *target)
        if not isinstance(installer_run.installer, Uv):
            raise
        return (installer_run.installer.program, "tool", "run", "--quiet", "--from", "pip", "pip", *target)
    return found.program if isinstance(found, Pip) else ()


def _bundled_pip() -> Path | None:
    """The pip wheel of ensurepip, which runs without installation."""
    wheel_folder = sysconfig.get_config_var("WHEEL_PKG_DIR")
    spec = find_spec("ensurepip")
    folders = [Path(spec.origin).parent / "_bundled"] if spec is not None and spec.origin else []
    folders += [Path(wheel_folder)] if wheel_folder else []
    return next((wheel for folder in folders for wheel in sorted(folder.glob("pip-*.whl"))), None)
