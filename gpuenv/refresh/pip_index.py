"""The package index through pip: its list of versions, and its report of what it would install."""

from __future__ import annotations

import json
import re
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from gpuenv.probe.children import ChildResult, run_child
from gpuenv.refresh.index import PATIENCE, PYTHONS, IndexFile, Listing, PackageIndexError, failed, wheel

_EVERY_PYTHON = ("3.11", "3.14", *(f"3.{minor}" for minor in (7, 8, 9, 10, 12, 13, 15)), "3.13t", "3.14t", "3.15t")
_LAST_WITH_M = "3.7"
_NEWEST_GLIBC = 40
_LEGACY = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}
_OTHERS = {"windows-x86_64": ("win_amd64",), "windows-arm64": ("win_arm64",)}
_YANKED = re.compile(
    r"yanked version: '([^']+)' candidate \(version (\S+).*?Reason for being yanked: ([^\n]*)", re.DOTALL
)
_NO_REASON, _NOT_GIVEN = "no reason given", ("", "<none given>")  # as pip's resolver tells that there is none
_NOTHING = ("No matching distribution", "Could not find a version", "ResolutionImpossible", "conflicting dependencies")
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
        """See ``Index``."""
        left = SpecifierSet(",".join((wanted, *(f"!={version}" for version in known))))
        told: dict[str, None] = {}
        for python in PYTHONS:
            told |= dict.fromkeys(self._versions(name, python))
        if not told:
            raise PackageIndexError(f"{name}: the package index has no release at all; is it the right one?")
        return left.filter(told)

    def _versions(self, name: str, python: str) -> Iterator[str]:
        done = self._run(["index", "versions", name, *_target(python, _linux("x86_64"))])
        if done.exit_code == 0:
            told = re.search(r"^Available versions: (.*)$", done.stdout, re.MULTILINE)
            yield from told[1].split(", ") if told else ()
        elif not any(word in done.stderr for word in _NOTHING):
            raise failed(name, done)

    def files(self, name: str, version: str) -> Listing:
        """See ``Index``: pip is asked once for each Python and platform."""
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
                files = [file for file in map(_file, entries) if file is not None]
                found |= {file.name: file for file in files}
                if any(file.python.startswith("py") for file in files):
                    break  # for every Python
        return Listing(tuple(found.values()), reason)

    def unpack(self, requirement: str, file: IndexFile, folder: Path) -> None:
        """See ``Index``."""
        with TemporaryDirectory(dir=self.scratch) as scratch:
            wanted = Path(scratch, "requirement.txt")
            wanted.write_text(f"{requirement} --hash=sha256:{file.sha256}\n", encoding="utf-8")
            python = _python_of(file)
            command = ["download", "--quiet", "--no-deps", "--require-hashes", "--dest", scratch]
            done = self._run([*command, *_target(python, file.platform_tag.split(".")), "--requirement", str(wanted)])
            fetched = list(Path(scratch).glob("*.whl"))
            if done.exit_code != 0 or len(fetched) != 1:
                raise failed(requirement, done)
            try:
                with zipfile.ZipFile(fetched[0]) as archive:
                    archive.extractall(folder)
            except zipfile.BadZipFile as error:
                raise PackageIndexError(f"{file.name}: {error}") from error

    def requires(self, name: str, version: str, file: IndexFile) -> tuple[str, ...]:
        """See ``Index``: pip fetches the metadata alone, where the index has it apart."""
        told = self._report([f"{name}=={version}"], _python_of(file), _linux("x86_64"), "--no-deps")
        if told is None:
            raise PackageIndexError(f"{name} {version}: has no wheel for Linux x86_64")
        return tuple(told[0][0]["metadata"].get("requires_dist", ()))

    def closure(self, requirement: str, glibc: str, python: str) -> Mapping[str, str] | None:
        """See ``Index``."""
        told = self._report([requirement], python, _linux("x86_64", int(glibc.split(".")[1])))
        if told is None:
            return None
        return {canonicalize_name(entry["metadata"]["name"]): entry["metadata"]["version"] for entry in told[0]}

    def withdrawn(self, releases: Mapping[str, str], python: str) -> Mapping[str, str]:
        """See ``Index``."""
        told = self._report(
            [f"{name}=={version}" for name, version in releases.items()], python, _linux("x86_64"), "--no-deps"
        )
        if told is None:
            raise PackageIndexError(f"{', '.join(releases)}: the package index no longer has a release that is known")
        return told[1]

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
                return entries, _yanked(entries, done.stderr)
        if any(word in done.stderr for word in _NOTHING):
            return None
        raise failed(", ".join(requirements), done)

    def _run(self, words: Sequence[str]) -> ChildResult:
        environment = {**self.environment, **_VARIABLES}
        return run_child([*self.pip, *words], environment, time.monotonic() + PATIENCE)


def _yanked(entries: Iterable[Mapping[str, Any]], complaints: str) -> dict[str, str]:
    """Why each was withdrawn that was; before 23.3, pip's warning alone says that it was."""
    names = (canonicalize_name(entry["metadata"]["name"]) for entry in entries if entry.get("is_yanked"))
    found: dict[str, str] = dict.fromkeys(names, _NO_REASON)
    for match in _YANKED.finditer(complaints):
        found[canonicalize_name(match[1])] = _NO_REASON if match[3] in _NOT_GIVEN else match[3]
    return found


def _linux(arch: str, glibc: int = _NEWEST_GLIBC) -> tuple[str, ...]:
    """The platform tags that a C library accepts; pip takes exactly those that it is given."""
    newest_first = range(glibc, 4, -1)
    tags = [name for minor in newest_first for name in (f"manylinux_2_{minor}", _LEGACY.get(minor)) if name]
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


def _file(entry: Mapping[str, Any]) -> IndexFile | None:
    download = entry["download_info"]
    name = download["url"].split("#")[0].rsplit("/", 1)[-1].replace("%2B", "+")
    digest = download.get("archive_info", {}).get("hashes", {}).get("sha256")
    return wheel(name, digest) if digest else None
