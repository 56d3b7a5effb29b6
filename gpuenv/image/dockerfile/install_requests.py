"""What can be installed, and the texts that name it: requirements of pip, packages of conda."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name, parse_wheel_filename

from gpuenv.image.dockerfile.bounds import spend
from gpuenv.image.dockerfile.projects import Selection
from gpuenv.image.dockerfile.variables import is_known
from gpuenv.model.versions import CudaVersion

_ENDLESS = re.compile(r"\d{40}")  # no version has so many digits, and Python refuses to read thousands
_CONDA_SPEC = re.compile(r"(?:[\w./-]+::)?([A-Za-z0-9_.-]+?)\s*(?:(==|=|>=|<=|>|<|!=|~=)(.*))?")


class Manager(str, Enum):
    """Who installs."""

    PIP = "pip"
    CONDA = "conda"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A location in a file."""

    file: str
    line: int
    end_line: int | None = None


@dataclass(frozen=True, slots=True)
class Install:
    """One thing that is installed.

    Attributes:
        manager: by whom.
        name: canonical.
        specifier: the versions; null where that is not known.
        extras: the requested extras.
        location: where it is requested.
        text: as it is written.
        from_source: whether it is built rather than taken as a wheel.
        index_cuda: the CUDA that the index is for; 0.0 for one without CUDA.
        locked: whether a lock or a constraint says which version it is.
        perhaps: whether it may not be installed at all: it stands in a condition, or is tried after a failure.
        environment: what names the environment that it is for, where the command does.
    """

    manager: Manager
    name: str
    specifier: SpecifierSet | None
    extras: frozenset[str]
    location: SourceLocation
    text: str
    from_source: bool = False
    index_cuda: CudaVersion | None = None
    locked: bool = False
    perhaps: bool = False
    environment: str = ""

    @property
    def exact(self) -> str | None:
        """The version that is pinned."""
        pins = [entry for entry in self.specifier or () if entry.operator in ("==", "===")]
        return pins[0].version if len(pins) == 1 and "*" not in pins[0].version else None

    @property
    def pinned(self) -> bool:
        """Whether a later release cannot change what is installed, beyond a range that has an end."""
        ends = ("==", "===", "~=", "<", "<=")
        return self.locked or self.specifier is None or any(entry.operator in ends for entry in self.specifier)


class FileKind(str, Enum):
    """A file that lists what is installed."""

    REQUIREMENTS = "requirements"
    CONSTRAINTS = "constraints"
    PROJECT = "project"
    ENVIRONMENT = "environment"
    PACKAGES = "packages"
    PIPFILE = "pipfile"
    PIXI = "pixi"


@dataclass(frozen=True, slots=True)
class DependencyFile:
    """A file that a command installs from.

    Attributes:
        kind: what it is.
        path: where it is in the image; of a project, its folder.
        location: where it is requested.
        selection: which parts of a project; of pixi, the environments stand for extras.
        index_cuda: as in an install, where the command names an index.
    """

    kind: FileKind
    path: str
    location: SourceLocation
    selection: Selection = Selection()
    index_cuda: CudaVersion | None = None


@dataclass(frozen=True, slots=True)
class InstallRequest:
    """What a command requests: to install, to remove, and the files that list more."""

    installs: tuple[Install, ...] = ()
    removes: frozenset[str] = frozenset()
    files: tuple[DependencyFile, ...] = ()


LONGEST = 2000  # characters of a requirement: a marker may nest
_COST = 4000  # of reading one, in characters


@lru_cache(maxsize=10_000)  # every rule looks at the same ones
def requirement(text: str, location: SourceLocation, *, known: bool = True) -> Install | None:
    """A requirement as pip reads it; none if it is invalid or too long, or has a number without end."""
    if _ENDLESS.search(text):
        return None
    bare = text.split(" #", maxsplit=1)[0].split(" --", maxsplit=1)[0].strip().rstrip(";").rstrip()
    if len(bare) > LONGEST:
        return None
    spend(_COST)
    if re.match(r"(?:git\+|https?://|\S+\.whl$)", bare):
        return _by_address(bare, location, text)
    try:
        read = Requirement(bare)
    except InvalidRequirement:
        return None if known and is_known(bare) else _half_known(bare, location)
    name, extras = canonicalize_name(read.name), frozenset(read.extras)
    if read.url:
        wheel = _wheel(read.url)
        return Install(Manager.PIP, name, wheel[1] if wheel else None, extras, location, text, wheel is None)
    return Install(Manager.PIP, name, read.specifier, extras, location, text) if _holds_on_linux(read) else None


def _by_address(address: str, location: SourceLocation, text: str) -> Install | None:
    """The install from an address or a path: a wheel by its file name, else only CuPy's own repository."""
    wheel = _wheel(address)
    if wheel is not None:
        return Install(Manager.PIP, wheel[0], wheel[1], frozenset(), location, text)
    if "cupy/cupy" not in address:
        return None
    return Install(Manager.PIP, "cupy", None, frozenset(), location, text, from_source=True)


def _wheel(address: str) -> tuple[str, SpecifierSet] | None:
    """The name and version of a wheel, by its file's name."""
    file = re.split(r"[?#]", address)[0].rsplit("/", 1)[-1].replace("%2B", "+")  # the only one that names have
    try:
        name, version, _, _ = parse_wheel_filename(file)
    except ValueError:  # no name of a wheel, no version, or one without end
        return None
    return name, SpecifierSet(f"=={version}")


def _half_known(text: str, location: SourceLocation) -> Install | None:
    """A requirement whose version is an unknown variable."""
    match = re.match(r"([A-Za-z0-9][\w.-]*)\s*(?:\[([^\]]*)\])?", text)
    if match is None or text[match.end() :].startswith(("$", "`")):
        return None
    extras = frozenset(part.strip() for part in (match[2] or "").split(",") if part.strip())
    return Install(Manager.PIP, canonicalize_name(match[1]), None, extras, location, text)


def _holds_on_linux(read: Requirement) -> bool:
    """Whether a marker on the system lets it in; what it says of Python or extras is not looked at."""
    text = str(read.marker or "")
    if "platform_system" not in text and "sys_platform" not in text:
        return True
    linux = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "extra": ""}
    return read.marker is None or read.marker.evaluate(dict(linux))


def conda_spec(text: str, location: SourceLocation) -> Install | None:
    """A package of conda: ``conda-forge::cupy=14.2``."""
    match = _CONDA_SPEC.fullmatch(text.strip().split(" ")[0])
    if match is None or _ENDLESS.search(text):
        return None
    version = match[3] or ""
    version = version.split("=")[0] if match[2] in ("=", "==") else version  # a build behind it
    try:
        specifier = SpecifierSet(_conda_version(match[2], version))
    except ValueError:
        specifier = None
    return Install(Manager.CONDA, canonicalize_name(match[1]), specifier, frozenset(), location, text)


def _conda_version(operator: str | None, version: str) -> str:
    if not operator or not version:
        return ""
    if operator == "=":
        return f"=={version.rstrip('.*')}.*"
    return f"{operator}{version}"
