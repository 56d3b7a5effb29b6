"""The package index, as the user's own uv configuration reaches it: which releases there are, their files, one of them.

uv is asked to resolve a requirement that leaves out what is known, to lock a release, and to unpack a wheel of any
platform. No address of an index stands here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from gpuenv.probe.children import ChildResult, Ending, run_child

_PATIENCE = 900.0  # seconds for one call; a wheel of CuPy has about 150 MB
_PYTHONS = ("3.11", "3.14")  # between them they see the wheels of every release that is judged
_OLDEST = tuple(f">=3.{minor}" for minor in range(7, 20))
_FILE = re.compile(
    r'\{ url = "([^"]+)", hash = "sha256:([0-9a-f]{64})"(?:, size = (\d+))?(?:, upload-time = "([^"]+)")?'
)
_YANKED = re.compile(r'is yanked(?: \(reason: "(.*)"\))?')
_NOTHING = ("No solution found", "no matching", "not found in the package registry")


class PackageIndexError(Exception):
    """The index could not be asked; the message says what uv said."""


@dataclass(frozen=True, slots=True)
class IndexFile:
    """A wheel on the index."""

    name: str
    sha256: str
    size: int | None
    uploaded: str | None

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


@dataclass(frozen=True, slots=True)
class Listing:
    """The wheels of one release, and why it was withdrawn."""

    files: tuple[IndexFile, ...]
    yanked: str | None


@dataclass(frozen=True, slots=True)
class Index:
    """uv, the environment that holds its configuration, and a folder for what it is asked."""

    uv: tuple[str, ...]
    environment: Mapping[str, str]
    scratch: Path

    def unknown(self, name: str, wanted: str, known: Iterable[str]) -> Iterator[str]:
        """Releases in a range that are not known, the newest first.

        Args:
            name: the distribution.
            wanted: a range, such as ``>=13.0``.
            known: versions, or prefixes such as ``13.4.*``.

        Raises:
            PackageIndexError: where it cannot be asked, or has nothing of that name, which would look like nothing new.
        """
        left = list(known)
        if self._newest(name, "", (), _PYTHONS[0]) is None:
            raise PackageIndexError(f"{name}: the package index has no release at all; is it the right one?")
        for python in _PYTHONS:
            while found := self._newest(name, wanted, left, python):
                yield found
                left.append(found)

    def _newest(self, name: str, wanted: str, known: Sequence[str], python: str) -> str | None:
        without = "".join(f",!={version}" for version in known)
        command = [*self.uv, "pip", "compile", "--quiet", "--no-deps", "--no-header", "--no-annotate"]
        command += ["--only-binary", ":all:", "--python-version", python, "--python-platform", "x86_64-manylinux_2_28"]
        done = self._run([*command, self._written(f"{name}{wanted}{without}")])
        if done.ending is Ending.EXITED and done.exit_code == 0:
            told = re.search(rf"^{re.escape(name)}==(\S+)", done.stdout, re.MULTILINE)
            return told[1] if told else None
        if any(word in done.stderr for word in _NOTHING):
            return None
        raise _failed(f"{name}{wanted}", done)

    def files(self, name: str, version: str, folder: Path) -> Listing:
        """Every wheel of a release, by locking a project that wants it alone.

        Args:
            name: the distribution.
            version: of the release.
            folder: an empty one.
        """
        done = self._locked(f"{name}=={version}", folder)
        if done.exit_code != 0:
            raise _failed(f"{name}=={version}", done)
        text = (folder / "uv.lock").read_text(encoding="utf-8")
        found = (_file(match) for match in _FILE.finditer(text))
        yanked = _YANKED.search(done.stderr)
        prefix = f"{name.replace('-', '_')}-"
        files = tuple(file for file in found if file is not None and file.name.startswith(prefix))
        return Listing(files, (yanked[1] or "no reason given") if yanked else None)

    def _locked(self, requirement: str, folder: Path) -> ChildResult:
        """A lock holds the wheels for the Pythons of its project, and a release refuses too old a one."""
        command = [*self.uv, "lock", "--no-progress", "--directory", str(folder)]
        for python in _OLDEST[:-1]:
            (folder / "pyproject.toml").write_text(_project(requirement, python), encoding="utf-8")
            done = self._run(command)
            if done.exit_code == 0 or "does not satisfy Python" not in done.stderr:
                return done
        (folder / "pyproject.toml").write_text(_project(requirement, _OLDEST[-1]), encoding="utf-8")
        return self._run(command)

    def unpack(self, requirement: str, file: IndexFile, platform: str | None, folder: Path) -> None:
        """Downloads one wheel, holds it against its digest, and unpacks it.

        Args:
            requirement: the release, pinned.
            file: the wheel that is meant; any other one has another digest and is refused.
            platform: uv's name of its platform; None for this machine's.
            folder: where to.
        """
        command = [*self.uv, "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
        command += ["--python-version", f"{file.python[2]}.{file.python[3:].rstrip('t')}"] if platform else []
        command += ["--python-platform", platform] if platform else []
        wanted = self._written(f"{requirement} --hash=sha256:{file.sha256}")
        done = self._run([*command, "--target", str(folder), "--requirements", wanted])
        if done.exit_code != 0:
            raise _failed(requirement, done)

    def resolves(self, requirement: str, python: str, platform: str) -> bool:
        """Whether a requirement with all that it needs can be had on a platform."""
        command = [*self.uv, "pip", "compile", "--quiet", "--only-binary", ":all:", "--python-version", python]
        done = self._run([*command, "--python-platform", platform, self._written(requirement)])
        return done.exit_code == 0

    def _written(self, requirement: str) -> str:
        """A file with one requirement: what uv reads."""
        path = self.scratch / "requirement.in"
        path.write_text(f"{requirement}\n", encoding="utf-8")
        return str(path)

    def _run(self, command: Sequence[str]) -> ChildResult:
        return run_child(command, self.environment, time.monotonic() + _PATIENCE)


def _project(requirement: str, python: str) -> str:
    """A project that wants one release and nothing of what that needs."""
    overrides = ", ".join(f"\"{name} ; python_version < '0'\"" for name in ("numpy", "fastrlock", "cuda-pathfinder"))
    head = f'[project]\nname = "asked"\nversion = "0"\nrequires-python = "{python}"\n'
    return (
        f'{head}dependencies = ["{requirement}"]\n[tool.uv]\nno-build = true\noverride-dependencies = [{overrides}]\n'
    )


def _file(match: re.Match[str]) -> IndexFile | None:
    name = match[1].rsplit("/", 1)[-1].replace("%2B", "+")
    try:
        parse_wheel_filename(name)
    except InvalidWheelFilename:
        return None
    return IndexFile(name, match[2], int(match[3]) if match[3] else None, match[4])


def _failed(what: str, done: ChildResult) -> PackageIndexError:
    said = " ".join((done.stderr or done.error or "no answer").split())[:600]
    return PackageIndexError(f"{what}: the package index could not be asked: {said}")
