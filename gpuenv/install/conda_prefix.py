"""A conda environment as its own records tell it: ``conda-meta/*.json``, ``history``, and pixi's mark."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuenv.files import read_regular
from gpuenv.install.backends.conda import bare_address
from gpuenv.install.errors import TargetUnusable
from gpuenv.install.paths import is_inside
from gpuenv.install.record_file import hex_digest

META = "conda-meta"
_LARGEST = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class CondaFile:
    """A file that a package has put there; the digest where its record tells one."""

    path: str
    sha256: str | None


@dataclass(frozen=True, slots=True)
class CondaPackage:
    """A package that is there.

    Attributes:
        stem: the name of its record: name, version and build.
        name: its name.
        release: its version.
        url: where it came from, without passwords, and its MD5, as ``conda list --explicit`` has it.
        files: what it has put there.
    """

    stem: str
    name: str
    release: str
    url: str
    files: tuple[CondaFile, ...]


def is_conda(prefix: str) -> bool:
    """Whether a prefix is one of conda's."""
    return Path(prefix, META).is_dir()


def read_packages(prefix: str) -> Mapping[str, CondaPackage]:
    """Every package there, by its record's name.

    Raises:
        TargetUnusable: when a record cannot be read.
    """
    return {package.stem: package for package in _packages(Path(prefix, META))}


def stems(prefix: str) -> frozenset[str]:
    """The names of the records, which are the environment's exact state."""
    return frozenset(path.stem for path in Path(prefix, META).glob("*.json"))


def read_history(prefix: str) -> str:
    """The history that conda keeps; empty where there is none."""
    try:
        return read_regular(Path(prefix, META, "history"), _LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""


def pixi_manifest(prefix: str) -> str | None:
    """The manifest of the pixi project that an environment belongs to; empty where it does not say which."""
    for mark in ("pixi", "pixi_env_prefix"):
        path = Path(prefix, META, mark)
        if path.is_file():
            try:
                told = json.loads(read_regular(path, _LARGEST))
            except (OSError, ValueError):
                return ""
            manifest = told.get("manifest_path") if isinstance(told, dict) else None
            return manifest if isinstance(manifest, str) else ""
    return None


def wrong_files(prefix: str, packages: Iterable[CondaPackage], *, contents: bool) -> Iterator[tuple[str, str]]:
    """The files of some packages that are missing or, by their ``contents``, not what the records say.

    Yields:
        The name of the package, and the file.
    """
    for package in packages:
        for file in package.files:
            path = os.path.normpath(os.path.join(prefix, file.path))
            there = is_inside(path, prefix) and os.path.lexists(path)
            if not there or (contents and _is_other(path, file)):
                yield package.name, file.path


def _is_other(path: str, file: CondaFile) -> bool:
    return file.sha256 is not None and Path(path).is_file() and hex_digest(path) != file.sha256


def _packages(folder: Path) -> Iterator[CondaPackage]:
    for path in sorted(folder.glob("*.json")):
        try:
            yield _package(path.stem, json.loads(read_regular(path, _LARGEST)))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise TargetUnusable(
                f"{path}: conda's record cannot be read: {error}", "Make the environment anew."
            ) from error


def _package(stem: str, told: Any) -> CondaPackage:  # noqa: ANN401 - JSON
    url = bare_address(str(told.get("url") or ""))
    md5 = told.get("md5")
    paths = (told.get("paths_data") or {}).get("paths") or [{"_path": file} for file in told.get("files") or ()]
    files = tuple(CondaFile(str(entry["_path"]), _digest(entry)) for entry in paths)
    return CondaPackage(stem, str(told["name"]), str(told["version"]), f"{url}#{md5}" if url and md5 else url, files)


def _digest(entry: Mapping[str, Any]) -> str | None:
    """A file in which the prefix was filled in has another digest than in the package; a link has that of its end."""
    if entry.get("path_type") != "hardlink":
        return None
    told = entry.get("sha256_in_prefix") or (None if entry.get("prefix_placeholder") else entry.get("sha256"))
    return told if isinstance(told, str) else None
