"""The target environment: its folders, its distributions, and their RECORDs (PyPA, "Recording installed projects")."""

from __future__ import annotations

import base64
import csv
import errno
import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from gpuenv.files import open_regular, read_regular
from gpuenv.install.dependencies import Package
from gpuenv.install.errors import TargetUnusable
from gpuenv.install.plan import is_name
from gpuenv.matrix.ranges import is_version
from gpuenv.model.codec import DecodeError, decode
from gpuenv.model.secrets import for_the_target
from gpuenv.model.text import whole_number
from gpuenv.ondisk import on_disk
from gpuenv.probe.children import ChildGroup, Ending, run_child
from gpuenv.probe.command import in_target
from gpuenv.probe.protocol import parse_facts

_CHUNK = 1024 * 1024
_DIGITS = 18  # of a size that a file may have
_LARGEST = 64 * 1024 * 1024  # bytes of a RECORD: a hundred times that of the largest wheels


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a RECORD: a path relative to the distribution's folder, with digest and size."""

    path: str
    sha256: str | None
    size: int | None


def read_record(metadata: str) -> tuple[Entry, ...] | None:
    """The files of a distribution; None where it has no RECORD that can be read."""
    try:
        text = read_regular(os.path.join(metadata, "RECORD"), _LARGEST).decode("utf-8")
        rows = list(csv.reader(io.StringIO(text, newline="")))
    except (OSError, UnicodeDecodeError, csv.Error):
        return None
    if "\0" in text:  # which the csv module of Python 3.10 refuses, and no later one's
        return None
    return tuple(_entry(row) for row in rows if row and row[0])


def is_damaged(folder: str, entries: tuple[Entry, ...]) -> str | None:
    """The first file that is missing or of another size; looks at no contents."""
    for entry in entries:
        try:
            found = os.stat(os.path.join(folder, entry.path))  # noqa: PTH116 - thousands of files
        except (OSError, ValueError):  # no file can be called so
            return entry.path
        if entry.size is not None and found.st_size != entry.size:
            return entry.path
    return None


def misfits(folder: str, entries: tuple[Entry, ...]) -> int:
    """How many files, metadata apart, are missing or of another size; looks at no contents.

    Files without a size, such as compiled modules, are made later and may be gone. The probe counts in the same way.
    """
    counted = (entry for entry in entries if entry.size is not None and ".dist-info/" not in entry.path)
    return sum(1 for entry in counted if is_damaged(folder, (entry,)) is not None)


def digest(path: str) -> str:
    """The SHA-256 of a file in the form of a RECORD (base64); OSError when it cannot be read."""
    return base64.urlsafe_b64encode(_sha256(path)).rstrip(b"=").decode()


def hex_digest(path: str) -> str:
    """The SHA-256 of a file in hexadecimal digits; OSError when it cannot be read."""
    return _sha256(path).hex()


def has_digest(path: str, sha256: str) -> bool:
    """Whether a file can be read and has a digest, as a RECORD writes it."""
    try:
        return digest(path) == sha256
    except OSError:
        return False


def _sha256(path: str) -> bytes:
    sha = hashlib.sha256()
    handle = open_regular(path)
    try:
        while chunk := os.read(handle, _CHUNK):  # thousands of small files: no buffer, no object
            sha.update(chunk)
    finally:
        os.close(handle)
    return sha.digest()


def _entry(row: list[str]) -> Entry:
    kind, _, value = (row[1] if len(row) > 1 else "").partition("=")
    size = row[2] if len(row) > 2 else ""  # noqa: PLR2004 - the third column
    return Entry(row[0], value if kind == "sha256" else None, whole_number(size, _DIGITS))


@dataclass(frozen=True, slots=True)
class Scheme:
    """The folders of an environment, as its interpreter names them.

    Attributes:
        executable: the interpreter.
        prefix: ``sys.prefix``.
        kind: ``venv``, ``conda`` or ``system``.
        root: the folder that every other one lies below (sysconfig's ``data``).
        purelib: where pure modules go.
        platlib: where modules with extension modules go.
        externally_managed: whether the system forbids installing into it.
        path: where modules are imported from.
        python: its version.
        has_pip: whether it has a pip of its own.
        markers: the variables of environment markers.
    """

    executable: str
    prefix: str
    kind: str
    root: str
    purelib: str
    platlib: str
    externally_managed: bool
    path: tuple[str, ...]
    python: str
    has_pip: bool
    markers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Installed:
    """A distribution that is there.

    Attributes:
        name: canonical name.
        release: as in its metadata.
        folder: the folder that it is installed in.
        metadata: its metadata folder.
        requires: its Requires-Dist lines.
        extras: the extras that it provides, canonical.
        installer: who installed it, as it says.
    """

    name: str
    release: str
    folder: str
    metadata: str
    requires: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    installer: str | None = None


def ask_scheme(
    interpreter: str, environment: Mapping[str, str], deadline: float, group: ChildGroup | None = None
) -> Scheme:
    """The folders of the environment, from its own interpreter.

    Raises:
        TargetUnusable: when it cannot be started or does not answer.
    """
    result = run_child([*in_target(interpreter, "scheme")], for_the_target(environment), deadline, group)
    facts = parse_facts(result.stdout)
    if "done" not in facts:
        lines = [line for line in result.stderr.splitlines() if line.strip()]
        why = result.error or (lines[-1].strip()[:200] if lines else "it said nothing")
        if result.ending is Ending.TIMED_OUT:
            why = f"no answer within {result.duration:.0f} s"
        raise TargetUnusable(
            f"{interpreter}: the target's interpreter cannot be used: {why}",
            "Make the environment anew, or name another one with --python.",
        )
    if facts.get("lost_environment"):
        raise TargetUnusable(
            f"{facts['lost_environment']}: no virtual environment any more: it has no pyvenv.cfg, "
            f"so that its interpreter is that of {facts.get('prefix')}",
            "Make the environment anew, or name another one with --python.",
        )
    try:
        return decode(Scheme, facts)
    except DecodeError as error:
        raise TargetUnusable(f"{interpreter}: told something that is no Python environment: {error}") from error


def read_installed(folders: Iterable[str]) -> tuple[Installed, ...]:
    """Every distribution in these folders, each name once, as imports would meet them.

    Raises:
        TargetUnusable: where the metadata of one cannot be read.
    """
    found: dict[str, Installed] = {}
    for folder in _each_once(folders):
        here: dict[str, list[Installed]] = {}
        for distribution in distributions(path=[folder]):
            entry = _installed(distribution, folder)
            if entry is not None:
                here.setdefault(entry.name, []).append(entry)
        for name, entries in here.items():
            found.setdefault(name, entries[0] if len(entries) == 1 else _of_the_files(entries))
    return tuple(found.values())


def _of_the_files(entries: Sequence[Installed]) -> Installed:
    """Of several metadata of one name in one folder, that of the files there: an update was interrupted."""
    records = {entry.metadata: read_record(entry.metadata) or () for entry in entries}

    def order(entry: Installed) -> tuple[bool, int, float]:
        record = records[entry.metadata]
        return not record, misfits(entry.folder, record), -Path(entry.metadata).stat().st_mtime

    return min(entries, key=order)


def _each_once(folders: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for folder in folders:
        real = os.path.realpath(folder)
        if real not in seen and Path(real).is_dir():
            seen.add(real)
            yield folder


def _installed(distribution: Distribution, folder: str) -> Installed | None:
    """None for metadata without a name or a version, such as the remains of a broken uninstall.

    Names and versions are given to installers in files, one a line: what could be read as an option is no name.

    Raises:
        TargetUnusable: where the disk does not let it be read.
    """
    place = getattr(distribution, "_path", folder)
    try:
        return _read(on_disk(distribution), folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None  # a link to itself is as good as none
        raise TargetUnusable(
            f"{place}: what is installed there cannot be read: {error}", "Reinstall or remove that package."
        ) from error


def _read(distribution: Distribution, folder: str) -> Installed | None:
    metadata: Any = distribution.metadata
    name, release = metadata.get("Name"), metadata.get("Version")
    place = getattr(distribution, "_path", None)
    if not name or not release or place is None or not is_name(name) or not is_version(release):
        return None
    return Installed(
        name=canonicalize_name(name),
        release=release.strip(),
        folder=folder,
        metadata=str(place),
        requires=tuple(distribution.requires or ()),
        extras=tuple(canonicalize_name(extra) for extra in metadata.get_all("Provides-Extra") or ()),
        installer=(distribution.read_text("INSTALLER") or "").strip() or None,
    )


@dataclass(frozen=True, slots=True)
class Holdings:
    """What the target holds.

    Attributes:
        scheme: its folders.
        visible: every distribution that its imports meet.
        own: those that are installed in its own folders.
    """

    scheme: Scheme
    visible: tuple[Installed, ...]
    own: Mapping[str, Installed]


def take_stock(scheme: Scheme) -> Holdings:
    """Reads what the target holds."""
    visible = read_installed(scheme.path)
    folders = {os.path.realpath(scheme.purelib), os.path.realpath(scheme.platlib)}
    own = {entry.name: entry for entry in visible if os.path.realpath(entry.folder) in folders}
    return Holdings(scheme, visible, own)


def as_package(entry: Installed) -> Package:
    """A distribution as others depend on it."""
    return Package(entry.name, entry.release, entry.requires, entry.extras)
