"""Installs: requirements of pip, packages of conda and of the system, and references to files that list them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import VERSION_PATTERN

from gpuenv.image.dockerfile.variables import is_known
from gpuenv.model.versions import CudaVersion

_LONGEST = 2000  # characters of a requirement: a marker may nest
_NO_CUDA = CudaVersion(0, 0)
_ENDLESS = re.compile(r"\d{40}")  # no version has so many digits, and Python refuses to read thousands
_VERSION = re.compile(VERSION_PATTERN, re.VERBOSE | re.IGNORECASE)
_CONDA_SPEC = re.compile(r"(?:[\w./-]+::)?([A-Za-z0-9_.-]+?)\s*(?:(==|=|>=|<=|>|<|!=|~=)(.*))?")
_INDEX = re.compile(r"/whl/(?:nightly/)?(?:cu(\d\d)(\d)|(cpu))(?![\w.])")


class Manager(str, Enum):
    """A package manager."""

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
    """One package that is installed.

    Attributes:
        name: canonical.
        specifier: the versions; null if unknown.
        index_cuda: the CUDA of PyTorch's index; 0.0 for the index without CUDA.
        environment: the environment that the command names; empty for the usual one.
    """

    manager: Manager
    name: str
    specifier: SpecifierSet | None
    extras: frozenset[str]
    location: SourceLocation
    text: str
    from_source: bool = False
    index_cuda: CudaVersion | None = None
    environment: str = ""

    @property
    def exact(self) -> str | None:
        """The pinned version; None without a pin, or for a text that is no version (``===latest``)."""
        pins = [entry.version for entry in self.specifier or () if entry.operator in ("==", "===")]
        return pins[0] if len(pins) == 1 and _VERSION.fullmatch(pins[0]) else None


class FileKind(str, Enum):
    """The kind of a file that lists packages."""

    REQUIREMENTS = "requirements"
    CONSTRAINTS = "constraints"
    PROJECT = "project"  # pyproject.toml
    ENVIRONMENT = "environment"  # environment.yml


@dataclass(frozen=True, slots=True)
class DependencyFile:
    """A file that a command installs from; of a project, its folder, with ``*`` for all of its extras or groups.

    ``project`` is whether a project's own dependencies are installed, not only groups; ``index_cuda`` is as in
    ``Install``.
    """

    kind: FileKind
    path: str
    location: SourceLocation
    extras: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    project: bool = True
    index_cuda: CudaVersion | None = None


@dataclass(frozen=True, slots=True)
class InstallRequest:
    """What a command installs and removes; ``unknown`` is whether it has further, unknown installs."""

    installs: tuple[Install, ...] = ()
    removes: frozenset[str] = frozenset()
    files: tuple[DependencyFile, ...] = ()
    unknown: bool = False


def parse_requirement(text: str, location: SourceLocation, *, known: bool = True) -> Install | None:
    """Parses a requirement as pip does; None if it is invalid, or not for Linux.

    ``known`` is whether all variables in it are known.
    """
    bare = text.split(" #", maxsplit=1)[0].split(" --", maxsplit=1)[0].strip().rstrip(";").rstrip()
    if _ENDLESS.search(bare) or len(bare) > _LONGEST:
        return None
    if re.match(r"(?:git\+|https?://|\S+\.whl$)", bare):
        return _by_address(bare, location, text)
    try:
        read = Requirement(bare)
    except InvalidRequirement:
        return None if known and is_known(bare) else _without_version(bare, location)
    name, extras = canonicalize_name(read.name), frozenset(read.extras)
    if read.url:
        wheel = _wheel(read.url)
        return Install(Manager.PIP, name, wheel[1] if wheel else None, extras, location, text, wheel is None)
    return Install(Manager.PIP, name, read.specifier, extras, location, text) if _is_for_linux(read) else None


def _by_address(address: str, location: SourceLocation, text: str) -> Install | None:
    """The install from an address: a wheel by its file name, or CuPy's own repository."""
    wheel = _wheel(address)
    if wheel is not None:
        return Install(Manager.PIP, wheel[0], wheel[1], frozenset(), location, text)
    if "cupy/cupy" not in address:
        return None
    return Install(Manager.PIP, "cupy", None, frozenset(), location, text, from_source=True)


def _wheel(address: str) -> tuple[str, SpecifierSet] | None:
    file = re.split(r"[?#]", address)[0].rsplit("/", 1)[-1].replace("%2B", "+")
    try:
        name, version, _, _ = parse_wheel_filename(file)
    except ValueError:
        return None
    return name, SpecifierSet(f"=={version}")


def _without_version(text: str, location: SourceLocation) -> Install | None:
    """A requirement whose version is an unknown variable."""
    match = re.match(r"([A-Za-z0-9][\w.-]*)\s*(?:\[([^\]]*)\])?", text)
    if match is None or text[match.end() :].startswith(("$", "`")):
        return None
    extras = frozenset(part.strip() for part in (match[2] or "").split(",") if part.strip())
    return Install(Manager.PIP, canonicalize_name(match[1]), None, extras, location, text)


def _is_for_linux(read: Requirement) -> bool:
    """Whether a marker on the system admits Linux; markers on Python or extras are not evaluated."""
    text = str(read.marker or "")
    if read.marker is None or not ("platform_system" in text or "sys_platform" in text):
        return True
    return read.marker.evaluate({"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "extra": ""})


def parse_conda_spec(text: str, location: SourceLocation) -> Install | None:
    """A package of conda: ``conda-forge::cupy=14.2``."""
    match = _CONDA_SPEC.fullmatch(text.strip().split(" ")[0])
    if match is None or _ENDLESS.search(text):
        return None
    operator, version = match[2], match[3] or ""
    if operator in ("=", "=="):
        version = version.split("=")[0]  # a build may follow
    if operator == "=":
        operator, version = "==", f"{version.rstrip('.*')}.*"
    try:
        specifier = SpecifierSet(f"{operator}{version}" if operator and version else "")
    except ValueError:
        specifier = None
    return Install(Manager.CONDA, canonicalize_name(match[1]), specifier, frozenset(), location, text)


def index_cuda(text: str) -> CudaVersion | None:
    """The CUDA of PyTorch's index that a text names; ``_NO_CUDA`` for the one without, None for any other text."""
    match = _INDEX.search(text)
    return None if match is None else _NO_CUDA if match[3] else CudaVersion(int(match[1]), int(match[2]))
