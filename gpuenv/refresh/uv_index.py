"""The package index through uv: it resolves what leaves out the known, locks a release, and unpacks any wheel."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, mkstemp
from typing import Any

from gpuenv.files import parse_toml
from gpuenv.probe.children import ChildResult, Ending, run_child
from gpuenv.refresh.index import PATIENCE, PYTHONS, IndexFile, Listing, PackageIndexError, failed, wheel
from gpuenv.refresh.releases import requirements_of

_OLDEST = "3.7"  # Python; CuPy 11.3 has wheels for it
_TOO_OLD = re.compile(r"does not satisfy Python>=(\d+\.\d+)")
_YANKED = re.compile(r"`([\w.-]+)==([^`]+)` is yanked(?: \(reason: \"(.*)\"\))?")
_ABSENT = ("not found in the package registry", "not found in the provided package locations")
_NOTHING = ("No solution found", "no matching", "no versions of")
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
        """See ``Index``."""
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
        if any(word in done.stderr for word in _NOTHING):
            return None
        raise failed(f"{name}{wanted}", done)

    def files(self, name: str, version: str) -> Listing:
        """See ``Index``: from a lock of the release alone (PEP 751), which has the wheels for every platform."""
        with TemporaryDirectory(dir=self.scratch) as scratch:
            lock = Path(scratch, "pylock.toml")
            done = self._locked(f"{name}=={version}", lock)
            if done.exit_code != 0:
                raise failed(f"{name}=={version}", done)
            try:
                told = parse_toml(lock.read_text(encoding="utf-8"))
            except ValueError as error:
                raise PackageIndexError(f"{name}=={version}: uv wrote a lock that cannot be read: {error}") from error
        entries = [entry for package in told.get("packages", []) for entry in package.get("wheels", [])]
        files = (_file(entry) for entry in entries)
        return Listing(tuple(file for file in files if file is not None), _withdrawn(done.stderr).get(name))

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
        """See ``Index``: any other file than the one that is meant has another digest, and is refused."""
        command = [*self.uv, "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
        if file.python.startswith("cp"):
            command += ["--python-version", f"{file.python[2]}.{file.python[3:].rstrip('tm')}"]
        if file.platform is not None:
            command += ["--python-platform", _PLATFORMS[file.platform]]
        wanted = self._written([f"{requirement} --hash=sha256:{file.sha256}"])
        done = self._run([*command, "--target", str(folder), "--requirements", wanted])
        if done.exit_code != 0:
            raise failed(requirement, done)

    def requires(self, name: str, version: str, file: IndexFile) -> tuple[str, ...]:
        """See ``Index``: uv tells no metadata, so the wheel itself is fetched."""
        with TemporaryDirectory(dir=self.scratch) as scratch:
            self.unpack(f"{name}=={version}", file, Path(scratch))
            return requirements_of(Path(scratch), name)

    def closure(self, requirement: str, glibc: str, python: str) -> Mapping[str, str] | None:
        """See ``Index``; uv knows some C libraries only."""
        platform = f"x86_64-{_KNOWN_GLIBC.get(glibc, 'manylinux_' + glibc.replace('.', '_'))}"
        done = self._compile([requirement], python, platform)
        return _pins(done.stdout) if done.exit_code == 0 else None

    def withdrawn(self, releases: Mapping[str, str], python: str) -> Mapping[str, str]:
        """See ``Index``: uv warns of each that was withdrawn."""
        done = self._compile(
            [f"{name}=={version}" for name, version in releases.items()],
            python,
            _PLATFORMS["linux-x86_64"],
            "--no-deps",
            quiet=False,
        )
        if done.exit_code != 0:
            raise failed("releases that are known", done)
        return _withdrawn(done.stderr)

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
        return run_child(command, environment, time.monotonic() + PATIENCE)


def _pins(text: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE))


def _withdrawn(text: str) -> dict[str, str]:
    return {match[1]: match[3] or "no reason given" for match in _YANKED.finditer(text)}


def _file(entry: Mapping[str, Any]) -> IndexFile | None:
    """A wheel of a lock; its name stands apart, or at the end of its address."""
    place = str(entry.get("url") or entry.get("path") or "")
    name = entry.get("name") or place.replace("\\", "/").rsplit("/", 1)[-1].replace("%2B", "+")
    digest = entry.get("hashes", {}).get("sha256")
    uploaded = entry.get("upload-time")
    return wheel(name, digest, entry.get("size"), str(uploaded) if uploaded else None) if digest else None
