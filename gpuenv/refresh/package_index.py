"""Queries the package index with the user's uv or pip, as configured: releases, their files and metadata.

Every method of the two classes raises ``PackageIndexError`` if the index cannot be queried.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path
from tempfile import TemporaryDirectory, mkstemp
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from gpuenv.files import parse_toml
from gpuenv.model.redaction import hide_secrets
from gpuenv.probe.children import ChildResult, Ending, run_child

INSTALLER_SECONDS = 900.0  # for one call of pip or uv; a CuPy wheel has about 150 MB
# Together these see the wheels of every release in the matrix.
PYTHONS = ("3.11", "3.14")
# As in the matrix; wheels for musl and for macOS end in the names of the same processors.
_LONGEST = 600  # characters of an installer's error
_LINUX = re.compile(r"(?:many)?linux\w*_(x86_64|aarch64)")
_WINDOWS = {"win_amd64": "windows-x86_64", "win_arm64": "windows-arm64"}
_LEGACY = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}


class PackageIndexError(Exception):
    """The index could not be queried; the message quotes the installer."""


class NoReleaseError(PackageIndexError):
    """The index has no release of a distribution."""


@dataclass(frozen=True, slots=True)
class IndexFile:
    """A wheel on the index; ``size`` in bytes and the date ``uploaded``, if known."""

    name: str
    sha256: str
    size: int | None = None
    uploaded: str | None = None

    @property
    def python(self) -> str:
        """``cp312`` or ``cp314t``, as in the matrix; ``py3`` for any."""
        interpreter, abi, _ = min(map(str, parse_wheel_filename(self.name)[3])).split("-", 2)
        return f"{interpreter}t" if abi == f"{interpreter}t" else interpreter

    @property
    def platform_tag(self) -> str:
        """The platform tag in the file name."""
        return self.name.removesuffix(".whl").split("-")[-1]

    @property
    def platform(self) -> str | None:
        """``linux-x86_64`` and so on; None for any or another platform."""
        linux = _LINUX.match(self.platform_tag)
        return f"linux-{linux[1]}" if linux else _WINDOWS.get(self.platform_tag)

    @property
    def is_for_any(self) -> bool:
        """Whether it is for every platform."""
        return self.platform_tag == "any"

    @property
    def glibc(self) -> str | None:
        """The oldest C library of the compressed tags, such as 2.17; None without one."""
        parts = self.platform_tag.split(".")
        floors = [_LEGACY[part.split("_")[0]] for part in parts if part.split("_")[0] in _LEGACY]
        floors += [".".join(part.split("_")[1:3]) for part in parts if part.startswith("manylinux_")]
        return min(floors, key=Version, default=None)


@dataclass(frozen=True, slots=True)
class Listing:
    """The wheels of one release, and why it was yanked."""

    files: tuple[IndexFile, ...]
    yanked: str | None


def python_of(tags: Iterable[str]) -> str:
    """Returns the Python version to query a release with: an old one, unless it only has wheels for later ones."""
    pythons = [f"{tag[2]}.{tag[3:]}" for tag in tags if tag.startswith("cp3") and not tag.endswith("t")]
    return PYTHONS[0] if PYTHONS[0] in pythons or not pythons else pythons[0]


def wheel_file(name: str, sha256: str, size: int | None = None, uploaded: str | None = None) -> IndexFile | None:
    """Returns a file of the index if it is a wheel."""
    try:
        parse_wheel_filename(name)
    except InvalidWheelFilename:
        return None
    return IndexFile(name, sha256, size, uploaded)


def index_error(subject: str, done: ChildResult) -> PackageIndexError:
    """Returns an error that quotes the installer."""
    text = " ".join((done.stderr or done.error or f"no answer ({done.ending.value})").split())
    message = hide_secrets(text)[-_LONGEST:]
    return PackageIndexError(f"{subject}: the package index could not be queried: {message}")


class MetadataError(Exception):
    """The metadata is missing or invalid."""


def read_message(folder: Path, name: str) -> Message:
    """Returns the metadata of a distribution unpacked into a folder.

    Raises:
        MetadataError: there is none.
    """
    files = list(folder.glob(f"{name.replace('-', '_')}-*.dist-info/METADATA"))
    if len(files) != 1:
        raise MetadataError(f"{folder.name}: expected the metadata of one {name}, found {len(files)}")
    return Parser().parsestr(files[0].read_text(encoding="utf-8"))


_OLDEST = "3.7"  # Python; CuPy 11.3 has wheels for it
_TOO_OLD = re.compile(r"does not satisfy Python>=(\d+\.\d+)")
_UV_YANKED = re.compile(r"`([\w.-]+)==([^`]+)` is yanked(?: \(reason: \"(.*)\"\))?")
_ABSENT = ("not found in the package registry", "not found in the provided package locations")
_UV_NOTHING = ("No solution found", "no matching", "no versions of")
_ANY_LINUX = "manylinux_2_40"  # the newest that uv supports
_PLATFORMS = {
    "linux-x86_64": f"x86_64-{_ANY_LINUX}",
    "linux-aarch64": f"aarch64-{_ANY_LINUX}",
    "windows-x86_64": "x86_64-pc-windows-msvc",
    "windows-arm64": "aarch64-pc-windows-msvc",
}
_KNOWN_GLIBC = {"2.17": "manylinux2014"}


@dataclass(frozen=True, slots=True)
class UvIndex:
    """The index queried by uv, with the environment of its configuration and a folder for its input."""

    uv: tuple[str, ...]
    environment: Mapping[str, str]
    scratch: Path
    name = "uv"

    def unknown(self, name: str, wanted: str, known: Iterable[str]) -> Iterator[str]:
        """Yields unknown releases in a range for an old and then for a new Python, each the newest first.

        A name without any release raises ``NoReleaseError``, since it would look like nothing new. ``wanted`` is such
        as ``>=13.0``; ``known`` has versions, or prefixes such as ``13.4.*``.
        """
        left = list(known)
        for python in PYTHONS:
            while found := self._newest(name, wanted, left, python):
                yield found
                left.append(found)

    def _newest(self, name: str, wanted: str, known: Sequence[str], python: str) -> str | None:
        without = "".join(f",!={version}" for version in known)
        platform = _PLATFORMS["linux-x86_64"]
        options = ("--no-deps", "--prerelease", "disallow")
        done = self._compile([f"{name}{wanted}{without}"], python, platform, *options)
        if done.ending is Ending.EXITED and done.exit_code == 0:
            return _pins(done.stdout).get(name)
        if any(text in done.stderr for text in _ABSENT):
            raise NoReleaseError(f"{name}: the package index has no release; is it the right index?")
        if any(text in done.stderr for text in _UV_NOTHING):
            return None
        raise index_error(f"{name}{wanted}", done)

    def files(self, name: str, version: str) -> Listing:
        """Returns every wheel of a release for any Python, from a lock file of it (PEP 751)."""
        with TemporaryDirectory(dir=self.scratch) as scratch:
            lock = Path(scratch, "pylock.toml")
            done = self._locked(f"{name}=={version}", lock)
            if done.exit_code != 0:
                raise index_error(f"{name}=={version}", done)
            try:
                document = parse_toml(lock.read_text(encoding="utf-8"))
            except ValueError as error:
                raise PackageIndexError(f"{name}=={version}: uv wrote an unreadable lock file: {error}") from error
        entries = [entry for package in document.get("packages", []) for entry in package.get("wheels", [])]
        files = (_uv_file(entry) for entry in entries)
        return Listing(tuple(file for file in files if file is not None), _parse_uv_yanked(done.stderr).get(name))

    def _locked(self, requirement: str, lock: Path) -> ChildResult:
        """Locks a release for the oldest Python that it supports, since a lock has only wheels from that Python on."""
        requirements = self._written([requirement])
        command = ["pip", "compile", "--universal", "--no-deps", "--no-header", "--no-progress"]
        command += ["--only-binary", ":all:", "--format", "pylock.toml", "--output-file", str(lock), requirements]
        python = _OLDEST
        while True:
            done = self._run([*command, "--python-version", python])
            refused = _TOO_OLD.search(done.stderr) if done.exit_code != 0 else None
            if refused is None or refused[1] == python:
                return done
            python = refused[1]

    def unpack(self, requirement: str, file: IndexFile, folder: Path) -> None:
        """Downloads one wheel and unpacks it into a folder; rejects files with another digest."""
        command = ["pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
        if file.python.startswith("cp"):
            command += ["--python-version", f"{file.python[2]}.{file.python[3:].rstrip('tm')}"]
        if file.platform is not None:
            command += ["--python-platform", _PLATFORMS[file.platform]]
        wanted = self._written([f"{requirement} --hash=sha256:{file.sha256}"])
        done = self._run([*command, "--target", str(folder), "--requirements", wanted])
        if done.exit_code != 0:
            raise index_error(requirement, done)

    def requires(self, name: str, version: str, file: IndexFile) -> tuple[str, ...]:
        """Returns the requirements of a wheel for Linux x86_64; downloads it, because uv does not print metadata."""
        with TemporaryDirectory(dir=self.scratch) as scratch:
            self.unpack(f"{name}=={version}", file, Path(scratch))
            return tuple(read_message(Path(scratch), name).get_all("Requires-Dist") or ())

    def closure(self, requirement: str, glibc: str, python: str) -> Mapping[str, str] | None:
        """Returns what a requirement installs on Linux x86_64 with that C library and Python; None if impossible."""
        platform = f"x86_64-{_KNOWN_GLIBC.get(glibc, 'manylinux_' + glibc.replace('.', '_'))}"
        done = self._compile([requirement], python, platform)
        return _pins(done.stdout) if done.exit_code == 0 else None

    def yanked(self, releases: Mapping[str, str], python: str) -> Mapping[str, str]:
        """Returns those of the releases (one per distribution, all for that Python) that were yanked, with reasons."""
        done = self._compile(
            [f"{name}=={version}" for name, version in releases.items()],
            python,
            _PLATFORMS["linux-x86_64"],
            "--no-deps",
            quiet=False,
        )
        if done.exit_code != 0:
            raise index_error("known releases", done)
        return _parse_uv_yanked(done.stderr)

    def _compile(
        self, requirements: Sequence[str], python: str, platform: str, *options: str, quiet: bool = True
    ) -> ChildResult:
        command = ["pip", "compile", "--no-header", "--no-annotate", "--only-binary", ":all:", *options]
        command += ["--quiet"] if quiet else ["--no-progress"]
        command += ["--python-version", python, "--python-platform", platform]
        return self._run([*command, self._written(requirements)])

    def _written(self, requirements: Sequence[str]) -> str:
        """Writes a requirements file for uv."""
        descriptor, name = mkstemp(suffix=".in", dir=self.scratch)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in requirements)
        return name

    def _run(self, arguments: Sequence[str]) -> ChildResult:
        # Its output is parsed, so it must not wrap lines. Without --python, uv looks for each --python-version on this
        # machine and tries to download it, which only builds of source distributions need.
        environment = {**self.environment, "UV_NO_WRAP": "1"}
        command = [*self.uv, *arguments, "--python", sys.executable]
        return run_child(command, environment, time.monotonic() + INSTALLER_SECONDS)


def _pins(text: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE))


def _parse_uv_yanked(text: str) -> dict[str, str]:
    return {match[1]: match[3] or "no reason given" for match in _UV_YANKED.finditer(text)}


def _uv_file(entry: Mapping[str, Any]) -> IndexFile | None:
    """Returns a wheel of a lock file; its name is separate or at the end of the URL."""
    location = str(entry.get("url") or entry.get("path") or "")
    name = entry.get("name") or location.replace("\\", "/").rsplit("/", 1)[-1].replace("%2B", "+")
    digest = entry.get("hashes", {}).get("sha256")
    uploaded = entry.get("upload-time")
    return wheel_file(name, digest, entry.get("size"), str(uploaded) if uploaded else None) if digest else None


_EVERY_PYTHON = ("3.11", "3.14", *(f"3.{minor}" for minor in (7, 8, 9, 10, 12, 13, 15)), "3.13t", "3.14t", "3.15t")
_LAST_WITH_M = "3.7"
_NEWEST_GLIBC = 40
_OTHERS = {"windows-x86_64": ("win_amd64",), "windows-arm64": ("win_arm64",)}
_PIP_YANKED = re.compile(
    r"yanked version: '([^']+)' candidate \(version (\S+).*?Reason for being yanked: ([^\n]*)", re.DOTALL
)
_NO_REASON, _EMPTY_REASONS = "no reason given", ("", "<none given>")  # of pip's resolver
_PIP_NOTHING = (
    "No matching distribution",
    "Could not find a version",
    "ResolutionImpossible",
    "conflicting dependencies",
)
_VARIABLES = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_NO_COLOR": "1"}


@dataclass(frozen=True, slots=True)
class PipIndex:
    """The index queried by pip, with the environment of its configuration and a folder for its input."""

    pip: tuple[str, ...]
    environment: Mapping[str, str]
    scratch: Path
    name = "pip"

    def unknown(self, name: str, wanted: str, known: Iterable[str]) -> Iterator[str]:
        """See ``UvIndex``."""
        left = SpecifierSet(",".join((wanted, *(f"!={version}" for version in known))))
        releases: dict[str, None] = {}
        for python in PYTHONS:
            releases |= dict.fromkeys(self._versions(name, python))
        if not releases:
            raise NoReleaseError(f"{name}: the package index has no release; is it the right index?")
        return left.filter(releases)

    def _versions(self, name: str, python: str) -> Iterator[str]:
        done = self._run(["index", "versions", name, *_target(python, _linux("x86_64"))])
        if done.exit_code == 0:
            found = re.search(r"^Available versions: (.*)$", done.stdout, re.MULTILINE)
            yield from found[1].split(", ") if found else ()
        elif not any(text in done.stderr for text in _PIP_NOTHING):
            raise index_error(name, done)

    def files(self, name: str, version: str) -> Listing:
        """The files of a release; queries pip once per Python and platform."""
        found: dict[str, IndexFile] = {}
        reason, pythons = None, SpecifierSet()
        for platforms in (_linux("x86_64"), _linux("aarch64"), *_OTHERS.values()):
            for number, python in enumerate(_EVERY_PYTHON):
                if number == len(PYTHONS) and not any(_is_for(file, platforms) for file in found.values()):
                    break  # no wheel for an old and a new Python: not for this platform
                if not pythons.contains(python.rstrip("t")):
                    continue
                entries, yanked = self._report([f"{name}=={version}"], python, platforms, "--no-deps") or ((), {})
                for entry in entries:
                    pythons = SpecifierSet(entry["metadata"].get("requires_python", ""))
                reason = yanked.get(name, reason)
                files = [file for file in map(_pip_file, entries) if file is not None]
                found |= {file.name: file for file in files}
                if any(file.python.startswith("py") for file in files):
                    break  # one wheel for every Python
        return Listing(tuple(found.values()), reason)

    def unpack(self, requirement: str, file: IndexFile, folder: Path) -> None:
        """See ``UvIndex``."""
        with TemporaryDirectory(dir=self.scratch) as scratch:
            wanted = Path(scratch, "requirement.txt")
            wanted.write_text(f"{requirement} --hash=sha256:{file.sha256}\n", encoding="utf-8")
            python = _python_of(file)
            command = ["download", "--quiet", "--no-deps", "--require-hashes", "--dest", scratch]
            done = self._run([*command, *_target(python, file.platform_tag.split(".")), "--requirement", str(wanted)])
            fetched = list(Path(scratch).glob("*.whl"))
            if done.exit_code != 0 or len(fetched) != 1:
                raise index_error(requirement, done)
            try:
                with zipfile.ZipFile(fetched[0]) as archive:
                    archive.extractall(folder)
            except zipfile.BadZipFile as error:
                raise PackageIndexError(f"{file.name}: {error}") from error

    def requires(self, name: str, version: str, file: IndexFile) -> tuple[str, ...]:
        """As with uv; pip fetches only the metadata if the index provides it separately."""
        report = self._report([f"{name}=={version}"], _python_of(file), _linux("x86_64"), "--no-deps")
        if report is None:
            raise PackageIndexError(f"{name} {version}: has no wheel for Linux x86_64")
        return tuple(report[0][0]["metadata"].get("requires_dist", ()))

    def closure(self, requirement: str, glibc: str, python: str) -> Mapping[str, str] | None:
        """See ``UvIndex``."""
        report = self._report([requirement], python, _linux("x86_64", int(glibc.split(".")[1])))
        if report is None:
            return None
        return {canonicalize_name(entry["metadata"]["name"]): entry["metadata"]["version"] for entry in report[0]}

    def yanked(self, releases: Mapping[str, str], python: str) -> Mapping[str, str]:
        """See ``UvIndex``."""
        report = self._report(
            [f"{name}=={version}" for name, version in releases.items()], python, _linux("x86_64"), "--no-deps"
        )
        if report is None:
            raise PackageIndexError(
                f"{', '.join(releases)}: the package index no longer has one of these known releases"
            )
        return report[1]

    def _report(
        self, requirements: Sequence[str], python: str, platforms: Sequence[str], *options: str
    ) -> tuple[list[dict[str, Any]], dict[str, str]] | None:
        """Returns the wheels that pip would install and the yanked ones; None if it finds none."""
        with TemporaryDirectory(dir=self.scratch) as scratch:
            report = Path(scratch, "report.json")
            command = ["install", "--quiet", "--dry-run", "--ignore-installed", "--report", str(report)]
            command += ["--target", str(Path(scratch, "unused")), *options, *_target(python, platforms)]
            done = self._run([*command, *requirements])
            if done.exit_code == 0:
                entries = json.loads(report.read_text(encoding="utf-8"))["install"]
                return entries, _parse_pip_yanked(entries, done.stderr)
        if any(text in done.stderr for text in _PIP_NOTHING):
            return None
        raise index_error(", ".join(requirements), done)

    def _run(self, arguments: Sequence[str]) -> ChildResult:
        environment = {**self.environment, **_VARIABLES}
        return run_child([*self.pip, *arguments], environment, time.monotonic() + INSTALLER_SECONDS)


def _parse_pip_yanked(entries: Iterable[Mapping[str, Any]], stderr: str) -> dict[str, str]:
    """Returns the reasons of yanked releases; before 23.3, only pip's warning reports them."""
    names = (canonicalize_name(entry["metadata"]["name"]) for entry in entries if entry.get("is_yanked"))
    found: dict[str, str] = dict.fromkeys(names, _NO_REASON)
    for match in _PIP_YANKED.finditer(stderr):
        found[canonicalize_name(match[1])] = _NO_REASON if match[3] in _EMPTY_REASONS else match[3]
    return found


def _linux(arch: str, glibc: int = _NEWEST_GLIBC) -> tuple[str, ...]:
    """Returns the platform tags that a C library supports; pip needs all of them."""
    newest_first = range(glibc, 4, -1)
    legacy = {floor: name for name, floor in _LEGACY.items()}
    tags = [name for minor in newest_first for name in (f"manylinux_2_{minor}", legacy.get(f"2.{minor}")) if name]
    return tuple(f"{tag}_{arch}" for tag in tags)


def _python_of(file: IndexFile) -> str:
    return f"{file.python[2]}.{file.python[3:]}" if file.python.startswith("cp") else PYTHONS[0]


def _target(python: str, platforms: Iterable[str]) -> list[str]:
    tag = f"cp{python.replace('.', '')}" + ("m" if python == _LAST_WITH_M else "")
    options = ["--only-binary", ":all:", "--implementation", "cp", "--python-version", python.rstrip("t")]
    options += [option for name in (tag, "abi3", "none") for option in ("--abi", name)]
    return options + [option for name in platforms for option in ("--platform", name)]


def _is_for(file: IndexFile, platforms: Sequence[str]) -> bool:
    return any(tag in platforms for tag in file.platform_tag.split(".")) or file.is_for_any


def _pip_file(entry: Mapping[str, Any]) -> IndexFile | None:
    download = entry["download_info"]
    name = download["url"].split("#")[0].rsplit("/", 1)[-1].replace("%2B", "+")
    digest = download.get("archive_info", {}).get("hashes", {}).get("sha256")
    return wheel_file(name, digest) if digest else None


Index = UvIndex | PipIndex
