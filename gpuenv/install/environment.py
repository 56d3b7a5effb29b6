"""The target environment: its folders, its distributions, and their RECORDs (PyPA, "Recording installed projects").

Paths are strings where thousands of files are processed, since ``pathlib`` costs seconds there.
"""

from __future__ import annotations

import base64
import csv
import errno
import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, NamedTuple

from packaging.utils import canonicalize_name

from gpuenv.dist_metadata import bounded
from gpuenv.files import open_regular, read_regular
from gpuenv.install.exceptions import TargetUnusable
from gpuenv.install.plan import is_name
from gpuenv.matrix.ranges import is_version
from gpuenv.model.codec import DecodeError, decode
from gpuenv.model.dependencies import Package
from gpuenv.model.snapshot import Source
from gpuenv.model.strings import parse_integer
from gpuenv.probe.children import ChildGroup
from gpuenv.probe.context import target_command
from gpuenv.probe.interpreters import run_interpreter
from gpuenv.probe.protocol import parse_facts, source_of

_CHUNK = 1024 * 1024
_DIGITS = 18  # of the largest file size
_LARGEST = 64 * 1024 * 1024  # bytes; a hundred times the RECORD of the largest wheels


def is_inside(path: str, folder: str) -> bool:
    """Whether a normalised path is below a folder."""
    return path.startswith(folder.rstrip("/") + "/")


def below(path: str, folder: str) -> str:
    """A normalised path relative to a folder."""
    return path[len(folder.rstrip("/")) + 1 :] if is_inside(path, folder) else os.path.relpath(path, folder)


class RecordEntry(NamedTuple):
    """A line of a RECORD: a path relative to the distribution's folder, with digest and size."""

    path: str
    sha256: str | None
    size: int | None


def read_record(metadata: str) -> tuple[RecordEntry, ...] | None:
    """The files of a distribution; None without a readable RECORD."""
    try:
        text = read_regular(os.path.join(metadata, "RECORD"), _LARGEST).decode("utf-8")
        rows = list(csv.reader(io.StringIO(text, newline="")))
    except (OSError, UnicodeDecodeError, csv.Error):
        return None
    if "\0" in text:  # the csv module refuses it in Python 3.10 only
        return None
    entries = []
    for path, hashed, size in ((*row, "", "")[:3] for row in rows if row and row[0]):
        kind, _, value = hashed.partition("=")
        entries.append(RecordEntry(path, value if kind == "sha256" else None, parse_integer(size, _DIGITS)))
    return tuple(entries)


def first_damaged_file(folder: str, entries: tuple[RecordEntry, ...]) -> str | None:
    """The first file that is missing or has another size; does not read contents."""
    for entry in entries:
        try:
            found = os.stat(os.path.join(folder, entry.path))  # noqa: PTH116 - thousands of files
        except (OSError, ValueError):  # invalid file name
            return entry.path
        if entry.size is not None and found.st_size != entry.size:
            return entry.path
    return None


def count_damaged(folder: str, entries: tuple[RecordEntry, ...]) -> int:
    """Counts files outside the metadata that are missing or have another size; does not read contents.

    Files without a size, such as bytecode, are created later and may be missing. The probe counts in the same way.
    """
    counted = (entry for entry in entries if entry.size is not None and ".dist-info/" not in entry.path)
    return sum(first_damaged_file(folder, (entry,)) is not None for entry in counted)


def hex_digest(path: str) -> str:
    """The SHA-256 of a file in hexadecimal digits; OSError when it cannot be read."""
    sha = hashlib.sha256()
    handle = open_regular(path)
    try:
        while chunk := os.read(handle, _CHUNK):  # thousands of small files: no buffer, no object
            sha.update(chunk)
    finally:
        os.close(handle)
    return sha.hexdigest()


def digest(path: str) -> str:
    """The SHA-256 of a file in the form of a RECORD (base64); OSError when it cannot be read."""
    return record_form(bytes.fromhex(hex_digest(path)))


def record_form(sha256: bytes) -> str:
    """A digest in the form of a RECORD."""
    return base64.urlsafe_b64encode(sha256).rstrip(b"=").decode()


def has_digest(path: str, sha256: str) -> bool:
    """Whether a file can be read and has a digest, as a RECORD writes it."""
    try:
        return digest(path) == sha256
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class Scheme:
    """The folders of an environment, reported by its interpreter."""

    executable: str
    prefix: str  # ``sys.prefix``
    kind: str  # ``venv``, ``conda`` or ``system``
    root: str  # contains every other folder (``data`` of sysconfig)
    purelib: str
    platlib: str
    externally_managed: bool  # marked as externally managed (PEP 668)
    path: tuple[str, ...]  # ``sys.path``
    python: str  # its version
    has_pip: bool  # in the environment itself
    markers: Mapping[str, str]  # variables of environment markers

    @property
    def minor(self) -> str:
        """The Python version of its wheels, such as ``3.12``."""
        return ".".join(self.python.split(".")[:2])

    @property
    def platform(self) -> str:
        """Such as ``linux-x86_64``."""
        return f"{self.markers['sys_platform']}-{self.markers['platform_machine']}"

    @property
    def own_folders(self) -> frozenset[str]:
        """The resolved folders of its distributions."""
        return frozenset(map(os.path.realpath, (self.purelib, self.platlib)))


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledDistribution(Package):
    """An installed distribution: its folder, metadata folder and installer."""

    folder: str
    metadata: str
    installer: str | None = None


def silent_target(interpreter: str, source: Source) -> TargetUnusable:
    """The error for an interpreter that does not answer; ``source`` is how its probe ended. The doctor finds why."""
    reason = source.detail or source.state.value
    return TargetUnusable(f"{interpreter} cannot be used: {reason}", "Find the cause: gpuenv doctor")


def query_scheme(
    interpreter: str, environment: Mapping[str, str], deadline: float, group: ChildGroup | None = None
) -> Scheme:
    """Queries an interpreter for the folders of its environment.

    Raises:
        TargetUnusable: when it cannot be started or does not answer.
    """
    result = run_interpreter(target_command(interpreter, "scheme"), environment, deadline, group)
    facts = parse_facts(result.stdout)
    if "done" not in facts:
        raise silent_target(interpreter, source_of("target", result, facts))
    if facts.get("lost_environment"):
        raise TargetUnusable(
            f"{facts['lost_environment']}: no longer a virtual environment: it has no pyvenv.cfg, "
            f"so its interpreter is that of {facts.get('prefix')}",
            "Recreate the environment, or name another one with --python.",
        )
    try:
        scheme = decode(Scheme, facts)
    except DecodeError as error:
        raise TargetUnusable(f"{interpreter} does not answer as a Python interpreter: {error}") from error
    # lib64 may link to lib: one spelling, since files are compared by their paths
    return replace(scheme, platlib=scheme.purelib) if len(scheme.own_folders) == 1 else scheme


def read_installed(folders: Iterable[str]) -> tuple[InstalledDistribution, ...]:
    """The distributions in these folders, each name once, in import order.

    If an interrupted update left several metadata folders of one name, the one that matches the files counts.

    Raises:
        TargetUnusable: when metadata cannot be read.
    """
    return tuple(_first_by_name(_read_folders(folders)).values())


def _read_folders(folders: Iterable[str]) -> Iterator[InstalledDistribution]:
    """The distributions in these folders, in import order; those of each folder once by name."""
    seen: set[str] = set()
    for folder in folders:
        real = os.path.realpath(folder)
        if real in seen or not Path(real).is_dir():
            continue
        seen.add(real)
        by_name: dict[str, list[InstalledDistribution]] = {}
        for distribution in distributions(path=[folder]):
            entry = _installed(distribution, folder)
            if entry is not None:
                by_name.setdefault(entry.name, []).append(entry)
        for entries in by_name.values():
            yield min(entries, key=_mismatch) if len(entries) > 1 else entries[0]


def _first_by_name(entries: Iterable[InstalledDistribution]) -> dict[str, InstalledDistribution]:
    found: dict[str, InstalledDistribution] = {}
    for entry in entries:
        found.setdefault(entry.name, entry)
    return found


def _mismatch(entry: InstalledDistribution) -> tuple[bool, int, float]:
    """A sort key, lowest for metadata that matches the files."""
    record = read_record(entry.metadata) or ()
    return not record, count_damaged(entry.folder, record), -Path(entry.metadata).stat().st_mtime


def _installed(distribution: Distribution, folder: str) -> InstalledDistribution | None:
    """The installed distribution; None without a valid name and version, as a broken uninstall leaves it.

    Installers get names and versions in requirement files: text that could be an option is refused.

    Raises:
        TargetUnusable: when it cannot be read.
    """
    path = getattr(distribution, "_path", None)
    try:
        distribution = bounded(distribution)
        metadata: Any = distribution.metadata
        name, release = metadata.get("Name"), metadata.get("Version")
        if not name or not release or path is None or not is_name(name) or not is_version(release):
            return None
        return InstalledDistribution(
            canonicalize_name(name),
            release.strip(),
            tuple(distribution.requires or ()),
            tuple(canonicalize_name(extra) for extra in metadata.get_all("Provides-Extra") or ()),
            folder=folder,
            metadata=str(path),
            installer=(distribution.read_text("INSTALLER") or "").strip() or None,
        )
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None  # a link to itself counts as missing
        raise TargetUnusable(
            f"{path or folder}: the installed metadata cannot be read: {error}", "Reinstall or remove that package."
        ) from error


class Inventory(NamedTuple):
    """The target's folders, all importable distributions, and those in its own folders by name."""

    scheme: Scheme
    visible: tuple[InstalledDistribution, ...]
    own: Mapping[str, InstalledDistribution]

    @property
    def releases(self) -> dict[str, str]:
        """The versions of all importable distributions."""
        return {entry.name: entry.release for entry in self.visible}


def read_inventory(scheme: Scheme) -> Inventory:
    """Reads the distributions of a target, those in its own folders with the paths of the scheme."""
    own = {os.path.realpath(folder): folder for folder in (scheme.purelib, scheme.platlib)}
    found = list(_read_folders(own.get(os.path.realpath(folder), folder) for folder in scheme.path))
    visible = tuple(_first_by_name(found).values())
    return Inventory(scheme, visible, _first_by_name(entry for entry in found if entry.folder in own.values()))
