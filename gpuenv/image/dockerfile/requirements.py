"""Installs: requirements of pip, packages of conda and of the system, and references to files that list them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import product

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import VERSION_PATTERN

from gpuenv.image.dockerfile.variables import is_known
from gpuenv.model.dependencies import marker_holds
from gpuenv.model.versions import CudaVersion, PythonVersion

# The variables of markers on Linux; CuPy has wheels for CPython only.
_LINUX = {
    "sys_platform": "linux",
    "platform_system": "Linux",
    "os_name": "posix",
    "platform_python_implementation": "CPython",
    "implementation_name": "cpython",
}
_UNKNOWN_VARIABLES = re.compile("platform_(?:release|version)|implementation_version")
# A marker holds if it does for each of these, of what is unknown: the Pythons and the processors.
_PYTHONS = tuple(PythonVersion(3, minor) for minor in range(6, 17))
_MICROS = (0, 99)
_MACHINES = ("x86_64", "aarch64")
LIKE_CUDA = re.compile(
    r"cuda|cupy|nvidia|cublas|gpu|torch|tensorflow|jax|rapids|cudf|cuml"
    r"|conda|env|dep|require|poetry|pdm|pixi|pipenv|pip "
)
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
        marker: the environment marker, if it depends on more than Linux; empty without one.
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
    marker: str = ""

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
    marker = str(read.marker or "")
    holds = evaluate_marker(marker, None, None)
    if holds is False:
        return None
    name, extras = canonicalize_name(read.name), frozenset(read.extras)
    wheel = _wheel(read.url) if read.url else None
    specifier = (wheel[1] if wheel else None) if read.url else read.specifier
    from_source = bool(read.url) and wheel is None
    return Install(Manager.PIP, name, specifier, extras, location, text, from_source, marker="" if holds else marker)


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


@lru_cache(maxsize=1000)
def evaluate_marker(text: str, python: PythonVersion | None, machine: str | None) -> bool | None:
    """Whether an environment marker holds on Linux; None if it depends on something unknown."""
    if _UNKNOWN_VARIABLES.search(text):
        return None
    pythons = (python,) if python else _PYTHONS
    results = set()
    for (major, minor), micro, arch in product(
        [(each.major, each.minor) for each in pythons], _MICROS, (machine,) if machine else _MACHINES
    ):
        version = {"python_version": f"{major}.{minor}", "python_full_version": f"{major}.{minor}.{micro}"}
        try:
            results.add(marker_holds(text, {**_LINUX, **version, "platform_machine": arch}))
        except ValueError:
            return None
    return results.pop() if len(results) == 1 else None


def is_cuda_related(install: Install) -> bool:
    """Whether the name of a package is related to CUDA."""
    return LIKE_CUDA.search(install.name) is not None


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
