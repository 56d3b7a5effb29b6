"""The package index as the user's own installer reaches it: which releases there are, their files, one of them.

No address of an index stands here: uv or pip is asked, as it is configured. Each is a module of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from gpuenv.probe.children import ChildResult

PATIENCE = 900.0  # seconds for one call of pip or uv; a wheel of CuPy has about 150 MB
# Between them these see the wheels of every release that is judged.
PYTHONS = ("3.11", "3.14")
# As the matrix spells them; wheels for musl and for macOS end in the names of the same processors.
_LINUX = re.compile(r"(?:many)?linux\w*_(x86_64|aarch64)")
_WINDOWS = {"win_amd64": "windows-x86_64", "win_arm64": "windows-arm64"}
_LEGACY = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}


class PackageIndexError(Exception):
    """The index could not be asked; the message says what the installer said."""


@dataclass(frozen=True, slots=True)
class IndexFile:
    """A wheel on the index; ``size`` in bytes, and ``uploaded`` as a date, where they are told."""

    name: str
    sha256: str
    size: int | None = None
    uploaded: str | None = None

    @property
    def python(self) -> str:
        """``cp312`` or ``cp314t``, as the matrix spells it; ``py3`` for any."""
        tag = next(iter(sorted(map(str, parse_wheel_filename(self.name)[3]))))
        interpreter, abi, _ = tag.split("-", 2)
        return f"{interpreter}t" if abi == f"{interpreter}t" else interpreter

    @property
    def platform_tag(self) -> str:
        """As it stands in the file's name."""
        return self.name.removesuffix(".whl").split("-")[-1]

    @property
    def platform(self) -> str | None:
        """``linux-x86_64`` and so on; None where it is none of those, or any."""
        linux = _LINUX.match(self.platform_tag)
        return f"linux-{linux[1]}" if linux else _WINDOWS.get(self.platform_tag)

    @property
    def is_for_any(self) -> bool:
        """Whether it is for every platform."""
        return self.platform_tag == "any"

    @property
    def glibc(self) -> str | None:
        """The oldest C library that one of the compressed tags admits, as 2.17; None where they name none."""
        parts = self.platform_tag.split(".")
        floors = [_LEGACY[part.split("_")[0]] for part in parts if part.split("_")[0] in _LEGACY]
        floors += [".".join(part.split("_")[1:3]) for part in parts if part.startswith("manylinux_")]
        return min(floors, key=Version, default=None)


@dataclass(frozen=True, slots=True)
class Listing:
    """The wheels of one release, and why it was withdrawn."""

    files: tuple[IndexFile, ...]
    yanked: str | None


class Index(Protocol):
    """What a refresh asks of an installer; every method raises ``PackageIndexError`` where it cannot be asked."""

    @property
    def name(self) -> str:
        """What is asked, as ``uv``."""

    def unknown(self, name: str, wanted: str, known: Iterable[str]) -> Iterator[str]:
        """Releases in a range that are not known: for an old Python and then for a new one, each the newest first.

        A name of which there is nothing at all is a ``PackageIndexError``: it would look like nothing new.

        Args:
            name: the distribution.
            wanted: a range, such as ``>=13.0``.
            known: versions, or prefixes such as ``13.4.*``.
        """

    def files(self, name: str, version: str) -> Listing:
        """Every wheel of a release that some Python can install."""

    def unpack(self, requirement: str, file: IndexFile, folder: Path) -> None:
        """Downloads one wheel, holds it against its digest, and unpacks it into a folder."""

    def requires(self, name: str, version: str, file: IndexFile) -> tuple[str, ...]:
        """The requirements in the metadata of a release's wheel for Linux x86_64."""

    def closure(self, requirement: str, glibc: str, python: str) -> Mapping[str, str] | None:
        """What a requirement brings on Linux x86_64 with that C library and Python; None where it cannot be had."""

    def withdrawn(self, releases: Mapping[str, str], python: str) -> Mapping[str, str]:
        """Of some releases, one a distribution, all for that Python: those that were withdrawn, with the reasons."""


def python_of(tags: Iterable[str]) -> str:
    """The Python that a release is asked for with: an old one, unless it has wheels for later ones alone."""
    told = [f"{tag[2]}.{tag[3:]}" for tag in tags if tag.startswith("cp3") and not tag.endswith("t")]
    return PYTHONS[0] if PYTHONS[0] in told or not told else told[0]


def wheel(name: str, sha256: str, size: int | None = None, uploaded: str | None = None) -> IndexFile | None:
    """A file of the index, where its name is that of a wheel."""
    try:
        parse_wheel_filename(name)
    except InvalidWheelFilename:
        return None
    return IndexFile(name, sha256, size, uploaded)


def failed(what: str, done: ChildResult) -> PackageIndexError:
    """The fault, in the installer's own words."""
    said = " ".join((done.stderr or done.error or f"no answer ({done.ending.value})").split())[-600:]
    return PackageIndexError(f"{what}: the package index could not be asked: {said}")
