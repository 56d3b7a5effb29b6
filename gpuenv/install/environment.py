"""The target environment: its folders, its distributions, and their RECORDs (PyPA, "Recording installed projects").

Paths are text where thousands of files are gone through, since ``pathlib`` costs seconds there.
"""

from __future__ import annotations

import base64
import csv
import errno
import hashlib
import io
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, NamedTuple

from packaging.utils import canonicalize_name

from gpuenv.files import open_regular, read_regular
from gpuenv.install.dependencies import Package
from gpuenv.install.errors import TargetUnusable
from gpuenv.install.plan import is_name
from gpuenv.matrix.ranges import is_version
from gpuenv.model.codec import DecodeError, decode
from gpuenv.model.secrets import for_the_target
from gpuenv.model.strings import parse_integer
from gpuenv.ondisk import on_disk
from gpuenv.probe.children import ChildGroup, Ending, run_child
from gpuenv.probe.context import in_target
from gpuenv.probe.protocol import parse_facts

_CHUNK = 1024 * 1024
_DIGITS = 18  # of a size that a file may have
_LARGEST = 64 * 1024 * 1024  # bytes of a RECORD: a hundred times that of the largest wheels


def is_inside(path: str, folder: str) -> bool:
    """Whether a normalised path is below a folder."""
    return path.startswith(folder.rstrip("/") + "/")


def below(path: str, folder: str) -> str:
    """A normalised path, relative to a folder."""
    return path[len(folder.rstrip("/")) + 1 :] if is_inside(path, folder) else os.path.relpath(path, folder)


class Entry(NamedTuple):
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
    entries = []
    for path, hashed, size in ((*row, "", "")[:3] for row in rows if row and row[0]):
        kind, _, value = hashed.partition("=")
        entries.append(Entry(path, value if kind == "sha256" else None, parse_integer(size, _DIGITS)))
    return tuple(entries)


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
    return sum(is_damaged(folder, (entry,)) is not None for entry in counted)


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
    return base64.urlsafe_b64encode(bytes.fromhex(hex_digest(path))).rstrip(b"=").decode()


def has_digest(path: str, sha256: str) -> bool:
    """Whether a file can be read and has a digest, as a RECORD writes it."""
    try:
        return digest(path) == sha256
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class Scheme:
    """The folders of an environment, as its interpreter names them."""

    executable: str
    prefix: str  # ``sys.prefix``
    kind: str  # ``venv``, ``conda`` or ``system``
    root: str  # every other folder lies below it (``data`` of sysconfig)
    purelib: str
    platlib: str
    externally_managed: bool  # the system forbids installing into it
    path: tuple[str, ...]  # where modules are imported from
    python: str  # its version
    has_pip: bool  # of its own
    markers: Mapping[str, str]  # variables of environment markers

    @property
    def minor(self) -> str:
        """The Python of its wheels, such as ``3.12``."""
        return ".".join(self.python.split(".")[:2])

    @property
    def platform(self) -> str:
        """Such as ``linux-x86_64``."""
        return f"{self.markers['sys_platform']}-{self.markers['platform_machine']}"

    @property
    def own_folders(self) -> frozenset[str]:
        """The real folders that distributions are installed in."""
        return frozenset(map(os.path.realpath, (self.purelib, self.platlib)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed(Package):
    """A distribution that is there: the folder that it is installed in, that of its metadata, who installed it."""

    folder: str
    metadata: str
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

    Of several metadata of one name in one folder, that of the files there: an update was interrupted.

    Raises:
        TargetUnusable: where the metadata of one cannot be read.
    """
    found: dict[str, Installed] = {}
    seen: set[str] = set()
    for folder in folders:
        real = os.path.realpath(folder)
        if real in seen or not Path(real).is_dir():
            continue
        seen.add(real)
        here: dict[str, list[Installed]] = {}
        for distribution in distributions(path=[folder]):
            entry = _installed(distribution, folder)
            if entry is not None:
                here.setdefault(entry.name, []).append(entry)
        for name, entries in here.items():
            found.setdefault(name, min(entries, key=_unlikeliness) if len(entries) > 1 else entries[0])
    return tuple(found.values())


def _unlikeliness(entry: Installed) -> tuple[bool, int, float]:
    """Less for metadata that describes the files that are there."""
    record = read_record(entry.metadata) or ()
    return not record, misfits(entry.folder, record), -Path(entry.metadata).stat().st_mtime


def _installed(distribution: Distribution, folder: str) -> Installed | None:
    """None for metadata without a name or a version, such as the remains of a broken uninstall.

    Names and versions are given to installers in files, one a line: what could be read as an option is no name.

    Raises:
        TargetUnusable: where the disk does not let it be read.
    """
    path = getattr(distribution, "_path", None)
    try:
        distribution = on_disk(distribution)
        metadata: Any = distribution.metadata
        name, release = metadata.get("Name"), metadata.get("Version")
        if not name or not release or path is None or not is_name(name) or not is_version(release):
            return None
        return Installed(
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
            return None  # a link to itself is as good as none
        raise TargetUnusable(
            f"{path or folder}: what is installed there cannot be read: {error}", "Reinstall or remove that package."
        ) from error


class Holdings(NamedTuple):
    """The folders of the target, every distribution that its imports meet, and those in its own folders by name."""

    scheme: Scheme
    visible: tuple[Installed, ...]
    own: Mapping[str, Installed]

    @property
    def releases(self) -> dict[str, str]:
        """The version of every distribution that imports meet."""
        return {entry.name: entry.release for entry in self.visible}


def take_stock(scheme: Scheme) -> Holdings:
    """Reads what the target holds."""
    visible, folders = read_installed(scheme.path), scheme.own_folders
    own = {entry.name: entry for entry in visible if os.path.realpath(entry.folder) in folders}
    return Holdings(scheme, visible, own)
