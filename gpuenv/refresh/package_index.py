"""The package index as the user's own installer reaches it: which releases there are, their files, one of them.

No address of an index stands here: uv or pip is asked, as it is configured. Every method of the two raises
``PackageIndexError`` where the index cannot be asked.
"""

from __future__ import annotations

import json
import os
import re
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
from gpuenv.probe.children import ChildResult, Ending, run_child

INSTALLER_SECONDS = 900.0  # seconds for one call of pip or uv; a wheel of CuPy has about 150 MB
# Between them these see the wheels of every release that is judged.
PYTHONS = ("3.11", "3.14")
# As the matrix spells them; wheels for musl and for macOS end in the names of the same processors.
_LINUX = re.compile(r"(?:many)?linux\w*_(x86_64|aarch64)")
_WINDOWS = {"win_amd64": "windows-x86_64", "win_arm64": "windows-arm64"}
_LEGACY = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}


class PackageIndexError(Exception):
    """The index could not be asked; the message quotes the installer."""


@dataclass(frozen=True, slots=True)
class IndexFile:
    """A wheel on the index; ``size`` in bytes, and ``uploaded`` as a date, where they are known."""

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


def python_of(tags: Iterable[str]) -> str:
    """The Python that a release is asked for with: an old one, unless it has wheels for later ones alone."""
    pythons = [f"{tag[2]}.{tag[3:]}" for tag in tags if tag.startswith("cp3") and not tag.endswith("t")]
    return PYTHONS[0] if PYTHONS[0] in pythons or not pythons else pythons[0]


def wheel_file(name: str, sha256: str, size: int | None = None, uploaded: str | None = None) -> IndexFile | None:
    """A file of the index, where its name is that of a wheel."""
    try:
        parse_wheel_filename(name)
    except InvalidWheelFilename:
        return None
    return IndexFile(name, sha256, size, uploaded)


def index_error(what: str, done: ChildResult) -> PackageIndexError:
    """The fault, in the installer's own words."""
    message = " ".join((done.stderr or done.error or f"no answer ({done.ending.value})").split())[-600:]
    return PackageIndexError(f"{what}: the package index could not be asked: {message}")


class MetadataError(Exception):
    """There is no metadata, or it cannot be read."""


def read_message(folder: Path, name: str) -> Message:
    """The metadata of a distribution that was unpacked into a folder.

    Raises:
        MetadataError: where there is none.
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
_ANY_LINUX = "manylinux_2_40"  # the newest that uv knows: wheels for a newer C library are left to a newer uv
_PLATFORMS = {
    "linux-x86_64": f"x86_64-{_ANY_LINUX}",
    "linux-aarch64": f"aarch64-{_ANY_LINUX}",
    "windows-x86_64": "x86_64-pc-windows-msvc",
    "windows-arm64": "aarch64-pc-windows-msvc",
}
_KNOWN_GLIBC = {"2.17": "manylinux2014"}


@dataclass(frozen=True, slots=True)
class UvIndex:
    """uv, the environment that holds its configuration, and a folder for what it is asked."""

    uv: tuple[str, ...]
    environment: Mapping[str, str]
    scratch: Path

    @property
    def name(self) -> str:
        """What is asked."""
        return "uv"

    def unknown(self, name: str, wanted: str, known: Iterable[str]) -> Iterator[str]:
        """Releases in a range that are not known: for an old Python and then for a new one, each the newest first.

        A name of which there is nothing at all is a ``PackageIndexError``: it would look like nothing new.

        Args:
            name: the distribution.
            wanted: a range, such as ``>=13.0``.
            known: versions, or prefixes such as ``13.4.*``.
        """
        left = list(known)
        for python in PYTHONS:
            while found := self._newest(name, wanted, left, python):
                yield found
                left.append(found)

    def _newest(self, name: str, wanted: str, known: Sequence[str], python: str) -> str | None:
        without = "".join(f",!={version}" for version in known)
        platform = _PLATFORMS["linux-x86_64"]
        done = self._compile([f"{name}{wanted}{without}"], python, platform, "--no-deps")
        if done.ending is Ending.EXITED and done.exit_code == 0:
            return _pins(done.stdout).get(name)
        if any(word in done.stderr for word in _ABSENT):
            raise PackageIndexError(f"{name}: the package index has no release at all; is it the right one?")
        if any(word in done.stderr for word in _UV_NOTHING):
            return None
        raise index_error(f"{name}{wanted}", done)

    def files(self, name: str, version: str) -> Listing:
        """Every wheel of a release that some Python can install, from a lock of it alone (PEP 751)."""
        with TemporaryDirectory(dir=self.scratch) as scratch:
            lock = Path(scratch, "pylock.toml")
            done = self._locked(f"{name}=={version}", lock)
            if done.exit_code != 0:
                raise index_error(f"{name}=={version}", done)
            try:
                document = parse_toml(lock.read_text(encoding="utf-8"))
            except ValueError as error:
                raise PackageIndexError(f"{name}=={version}: uv wrote a lock that cannot be read: {error}") from error
        entries = [entry for package in document.get("packages", []) for entry in package.get("wheels", [])]
        files = (_uv_file(entry) for entry in entries)
        return Listing(tuple(file for file in files if file is not None), _parse_uv_yanked(done.stderr).get(name))

    def _locked(self, requirement: str, lock: Path) -> ChildResult:
        """A lock holds the wheels for the Pythons that are asked for, and a release refuses too old a one."""
        wanted = self._written([requirement])
        command = [*self.uv, "pip", "compile", "--universal", "--no-deps", "--no-header", "--no-progress"]
        command += ["--only-binary", ":all:", "--format", "pylock.toml", "--output-file", str(lock), wanted]
        python = _OLDEST
        while True:
            done = self._run([*command, "--python-version", python])
            refused = _TOO_OLD.search(done.stderr) if done.exit_code != 0 else None
            if refused is None or refused[1] == python:
                return done
            python = refused[1]

    def unpack(self, requirement: str, file: IndexFile, folder: Path) -> None:
        """Downloads one wheel and unpacks it into a folder; any other file has another digest, and is refused."""
        command = [*self.uv, "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
        if file.python.startswith("cp"):
            command += ["--python-version", f"{file.python[2]}.{file.python[3:].rstrip('tm')}"]
        if file.platform is not None:
            command += ["--python-platform", _PLATFORMS[file.platform]]
        wanted = self._written([f"{requirement} --hash=sha256:{file.sha256}"])
        done = self._run([*command, "--target", str(folder), "--requirements", wanted])
        if done.exit_code != 0:
            raise index_error(requirement, done)

    def requires(self, name: str, version: str, file: IndexFile) -> tuple[str, ...]:
        """The requirements of a release's wheel for Linux x86_64; uv tells no metadata, so the wheel is fetched."""
        with TemporaryDirectory(dir=self.scratch) as scratch:
            self.unpack(f"{name}=={version}", file, Path(scratch))
            return tuple(read_message(Path(scratch), name).get_all("Requires-Dist") or ())

    def closure(self, requirement: str, glibc: str, python: str) -> Mapping[str, str] | None:
        """What a requirement brings on Linux x86_64 with that C library and Python; None where it cannot be had."""
        platform = f"x86_64-{_KNOWN_GLIBC.get(glibc, 'manylinux_' + glibc.replace('.', '_'))}"
        done = self._compile([requirement], python, platform)
        return _pins(done.stdout) if done.exit_code == 0 else None

    def withdrawn(self, releases: Mapping[str, str], python: str) -> Mapping[str, str]:
        """Of some releases, one a distribution, all for that Python: those that were withdrawn, with the reasons."""
        done = self._compile(
            [f"{name}=={version}" for name, version in releases.items()],
            python,
            _PLATFORMS["linux-x86_64"],
            "--no-deps",
            quiet=False,
        )
        if done.exit_code != 0:
            raise index_error("releases that are known", done)
        return _parse_uv_yanked(done.stderr)

    def _compile(
        self, requirements: Sequence[str], python: str, platform: str, *options: str, quiet: bool = True
    ) -> ChildResult:
        command = [*self.uv, "pip", "compile", "--no-header", "--no-annotate", "--only-binary", ":all:", *options]
        command += ["--quiet"] if quiet else ["--no-progress"]
        command += ["--python-version", python, "--python-platform", platform]
        return self._run([*command, self._written(requirements)])

    def _written(self, requirements: Sequence[str]) -> str:
        """A file with requirements: what uv reads."""
        descriptor, name = mkstemp(suffix=".in", dir=self.scratch)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in requirements)
        return name

    def _run(self, command: Sequence[str]) -> ChildResult:
        # What it says is looked through, and it would break its lines as wide as a terminal is.
        environment = {**self.environment, "UV_NO_WRAP": "1"}
        return run_child(command, environment, time.monotonic() + INSTALLER_SECONDS)


def _pins(text: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE))


def _parse_uv_yanked(text: str) -> dict[str, str]:
    return {match[1]: match[3] or "no reason given" for match in _UV_YANKED.finditer(text)}


def _uv_file(entry: Mapping[str, Any]) -> IndexFile | None:
    """A wheel of a lock; its name stands apart, or at the end of its address."""
    place = str(entry.get("url") or entry.get("path") or "")
    name = entry.get("name") or place.replace("\\", "/").rsplit("/", 1)[-1].replace("%2B", "+")
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
_NO_REASON, _NOT_GIVEN = "no reason given", ("", "<none given>")  # as pip's resolver tells that there is none
_PIP_NOTHING = (
    "No matching distribution",
    "Could not find a version",
    "ResolutionImpossible",
    "conflicting dependencies",
)
_VARIABLES = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_NO_COLOR": "1"}


@dataclass(frozen=True, slots=True)
class PipIndex:
    """pip, the environment that holds its configuration, and a folder for what it is asked."""

    pip: tuple[str, ...]
    environment: Mapping[str, str]
    scratch: Path

    @property
    def name(self) -> str:
        """What is asked."""
        return "pip"

    def unknown(self, name: str, wanted: str, known: Iterable[str]) -> Iterator[str]:
        """As with uv."""
        left = SpecifierSet(",".join((wanted, *(f"!={version}" for version in known))))
        releases: dict[str, None] = {}
        for python in PYTHONS:
            releases |= dict.fromkeys(self._versions(name, python))
        if not releases:
            raise PackageIndexError(f"{name}: the package index has no release at all; is it the right one?")
        return left.filter(releases)

    def _versions(self, name: str, python: str) -> Iterator[str]:
        done = self._run(["index", "versions", name, *_target(python, _linux("x86_64"))])
        if done.exit_code == 0:
            found = re.search(r"^Available versions: (.*)$", done.stdout, re.MULTILINE)
            yield from found[1].split(", ") if found else ()
        elif not any(word in done.stderr for word in _PIP_NOTHING):
            raise index_error(name, done)

    def files(self, name: str, version: str) -> Listing:
        """As with uv: pip is asked once for each Python and platform."""
        found: dict[str, IndexFile] = {}
        reason, pythons = None, SpecifierSet()
        for platforms in (_linux("x86_64"), _linux("aarch64"), *_OTHERS.values()):
            for number, python in enumerate(_EVERY_PYTHON):
                if number == len(PYTHONS) and not any(_is_for(file, platforms) for file in found.values()):
                    break  # neither an old nor a new Python has one: the release is not for this platform
                if not pythons.contains(python.rstrip("t")):
                    continue
                entries, withdrawn = self._report([f"{name}=={version}"], python, platforms, "--no-deps") or ((), {})
                for entry in entries:
                    pythons = SpecifierSet(entry["metadata"].get("requires_python", ""))
                reason = withdrawn.get(name, reason)
                files = [file for file in map(_pip_file, entries) if file is not None]
                found |= {file.name: file for file in files}
                if any(file.python.startswith("py") for file in files):
                    break  # for every Python
        return Listing(tuple(found.values()), reason)

    def unpack(self, requirement: str, file: IndexFile, folder: Path) -> None:
        """As with uv."""
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
        """As with uv: pip fetches the metadata alone, where the index has it apart."""
        report = self._report([f"{name}=={version}"], _python_of(file), _linux("x86_64"), "--no-deps")
        if report is None:
            raise PackageIndexError(f"{name} {version}: has no wheel for Linux x86_64")
        return tuple(report[0][0]["metadata"].get("requires_dist", ()))

    def closure(self, requirement: str, glibc: str, python: str) -> Mapping[str, str] | None:
        """As with uv."""
        report = self._report([requirement], python, _linux("x86_64", int(glibc.split(".")[1])))
        if report is None:
            return None
        return {canonicalize_name(entry["metadata"]["name"]): entry["metadata"]["version"] for entry in report[0]}

    def withdrawn(self, releases: Mapping[str, str], python: str) -> Mapping[str, str]:
        """As with uv."""
        report = self._report(
            [f"{name}=={version}" for name, version in releases.items()], python, _linux("x86_64"), "--no-deps"
        )
        if report is None:
            raise PackageIndexError(f"{', '.join(releases)}: the package index no longer has a release that is known")
        return report[1]

    def _report(
        self, requirements: Sequence[str], python: str, platforms: Sequence[str], *options: str
    ) -> tuple[list[dict[str, Any]], dict[str, str]] | None:
        """The wheels that pip would install, and the withdrawn among them; None where there are none."""
        with TemporaryDirectory(dir=self.scratch) as scratch:
            report = Path(scratch, "report.json")
            command = ["install", "--quiet", "--dry-run", "--ignore-installed", "--report", str(report)]
            command += ["--target", str(Path(scratch, "unused")), *options, *_target(python, platforms)]
            done = self._run([*command, *requirements])
            if done.exit_code == 0:
                entries = json.loads(report.read_text(encoding="utf-8"))["install"]
                return entries, _parse_pip_yanked(entries, done.stderr)
        if any(word in done.stderr for word in _PIP_NOTHING):
            return None
        raise index_error(", ".join(requirements), done)

    def _run(self, words: Sequence[str]) -> ChildResult:
        environment = {**self.environment, **_VARIABLES}
        return run_child([*self.pip, *words], environment, time.monotonic() + INSTALLER_SECONDS)


def _parse_pip_yanked(entries: Iterable[Mapping[str, Any]], complaints: str) -> dict[str, str]:
    """Why each was withdrawn that was; before 23.3, pip's warning alone says that it was."""
    names = (canonicalize_name(entry["metadata"]["name"]) for entry in entries if entry.get("is_yanked"))
    found: dict[str, str] = dict.fromkeys(names, _NO_REASON)
    for match in _PIP_YANKED.finditer(complaints):
        found[canonicalize_name(match[1])] = _NO_REASON if match[3] in _NOT_GIVEN else match[3]
    return found


def _linux(arch: str, glibc: int = _NEWEST_GLIBC) -> tuple[str, ...]:
    """The platform tags that a C library accepts; pip takes exactly those that it is given."""
    newest_first = range(glibc, 4, -1)
    legacy = {floor: name for name, floor in _LEGACY.items()}
    tags = [name for minor in newest_first for name in (f"manylinux_2_{minor}", legacy.get(f"2.{minor}")) if name]
    return tuple(f"{tag}_{arch}" for tag in tags)


def _python_of(file: IndexFile) -> str:
    return f"{file.python[2]}.{file.python[3:]}" if file.python.startswith("cp") else PYTHONS[0]


def _target(python: str, platforms: Iterable[str]) -> list[str]:
    tag = f"cp{python.replace('.', '')}" + ("m" if python == _LAST_WITH_M else "")
    words = ["--only-binary", ":all:", "--implementation", "cp", "--python-version", python.rstrip("t")]
    words += [word for name in (tag, "abi3", "none") for word in ("--abi", name)]
    return words + [word for name in platforms for word in ("--platform", name)]


def _is_for(file: IndexFile, platforms: Sequence[str]) -> bool:
    return any(tag in platforms for tag in file.platform_tag.split(".")) or file.is_for_any


def _pip_file(entry: Mapping[str, Any]) -> IndexFile | None:
    download = entry["download_info"]
    name = download["url"].split("#")[0].rsplit("/", 1)[-1].replace("%2B", "+")
    digest = download.get("archive_info", {}).get("hashes", {}).get("sha256")
    return wheel_file(name, digest) if digest else None


Index = UvIndex | PipIndex
