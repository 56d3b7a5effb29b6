"""Reads a conda environment: ``conda-meta/*.json``, ``history``, pixi's marker."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gpuenv.files import read_regular
from gpuenv.install.backends.conda import clean_url
from gpuenv.install.environment import hex_digest, is_inside
from gpuenv.install.exceptions import TargetUnusable
from gpuenv.install.journal import LARGEST_RECORD, read_json

META = "conda-meta"


class CondaFile(NamedTuple):
    """A file of a package, with its digest if recorded."""

    path: str
    sha256: str | None


class CondaPackage(NamedTuple):
    """An installed package."""

    stem: str  # the name of its record: name, version and build
    name: str
    release: str
    url: str  # without passwords, with the MD5, as in ``conda list --explicit``
    files: tuple[CondaFile, ...]


def is_conda(prefix: str) -> bool:
    """Whether a prefix is a conda environment."""
    return Path(prefix, META).is_dir()


def read_packages(prefix: str) -> Mapping[str, CondaPackage]:
    """The installed packages, by the names of their records.

    Raises:
        TargetUnusable: when a record cannot be read.
    """
    found = {}
    for path in sorted(Path(prefix, META).glob("*.json")):
        try:
            found[path.stem] = _package(path.stem, read_json(path))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise TargetUnusable(
                f"{path}: conda's record cannot be read: {error}", "Recreate the environment."
            ) from error
    return found


def _package(stem: str, record: Any) -> CondaPackage:  # noqa: ANN401 - JSON
    url, md5 = clean_url(str(record.get("url") or "")), record.get("md5")
    paths = (record.get("paths_data") or {}).get("paths") or [{"_path": file} for file in record.get("files") or ()]
    files = tuple(CondaFile(str(entry["_path"]), _digest(entry)) for entry in paths)
    url = f"{url}#{md5}" if url and md5 else url
    return CondaPackage(stem, str(record["name"]), str(record["version"]), url, files)


def _digest(entry: Mapping[str, Any]) -> str | None:
    """The digest of a file with the prefix filled in, if recorded; links have none."""
    if entry.get("path_type") != "hardlink":
        return None
    sha256 = entry.get("sha256_in_prefix") or (None if entry.get("prefix_placeholder") else entry.get("sha256"))
    return sha256 if isinstance(sha256, str) else None


def stems(prefix: str) -> frozenset[str]:
    """The names of the records, which identify the exact state of the environment."""
    return frozenset(path.stem for path in Path(prefix, META).glob("*.json"))


def read_history(prefix: str) -> str:
    """Conda's history file; empty without one."""
    try:
        return read_regular(Path(prefix, META, "history"), LARGEST_RECORD).decode("utf-8", "replace")
    except OSError:
        return ""


def pixi_manifest(prefix: str) -> str | None:
    """The manifest of an environment's pixi project; empty if unknown, None without pixi."""
    for marker in ("pixi", "pixi_env_prefix"):
        path = Path(prefix, META, marker)
        if path.is_file():
            try:
                written = read_json(path)
            except (OSError, ValueError):
                return ""
            manifest = written.get("manifest_path") if isinstance(written, dict) else None
            return manifest if isinstance(manifest, str) else ""
    return None


def wrong_files(prefix: str, packages: Iterable[CondaPackage], *, contents: bool) -> Iterator[tuple[str, str]]:
    """The files, with their packages, that are missing or, with ``contents``, differ from the records."""
    for package in packages:
        for file in package.files:
            path = os.path.normpath(os.path.join(prefix, file.path))
            exists = is_inside(path, prefix) and os.path.lexists(path)
            compared = contents and file.sha256 is not None and Path(path).is_file()
            if not exists or (compared and hex_digest(path) != file.sha256):
                yield package.name, file.path


def torn_packages(prefix: str, packages: Iterable[CondaPackage]) -> frozenset[str]:
    """The names of packages with missing files."""
    return frozenset(name for name, _ in wrong_files(prefix, packages, contents=False))
