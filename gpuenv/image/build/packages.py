"""The packages of an image: the user's additions, and the exact wheels that the user's own installer locks."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from gpuenv.doctor.fixes.table import read_rows
from gpuenv.files import read_regular
from gpuenv.install.backends.pip import Pip
from gpuenv.install.exceptions import TargetUnusable
from gpuenv.install.installer_config import InstallerRun
from gpuenv.install.plan import Pin
from gpuenv.install.solver import make_lock, offline_failure
from gpuenv.install.target_platform import TargetPlatform
from gpuenv.matrix.ranges import in_range
from gpuenv.model.cupy import is_cupy
from gpuenv.model.dependencies import logical_lines
from gpuenv.model.strings import error_reason

_LARGEST = 1 << 20
_INCLUDE = re.compile(r"(-r|-c|--requirement|--constraint)(?:\s*=?\s*)(\S.*)")
_HASH = re.compile(r"\s--hash[= ]sha256:([0-9a-f]{64})(?=\s|$)")
_INDEX = re.compile(r"-i|-f|--(extra-)?index-url|--no-index|--find-links|--trusted-host")


class AddedPackageError(ValueError):
    """A requirement that cannot be locked; the message has its file and line."""


@dataclass(slots=True)
class AddedPackages:
    """Packages to install with CuPy, and by package the SHA-256 digests that a file allows."""

    requirements: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    digests: dict[str, set[str]] = field(default_factory=dict)


class OptionalLibrary(NamedTuple):
    """A row of data/optional_wheels.csv: the wheel that has a library for a CuPy, and the library's folder in it."""

    library: str
    cupy: str
    cuda: str
    requirement: str
    folder: str
    source: str


def optional_library(name: str, cupy: str, cuda_major: int) -> OptionalLibrary | None:
    """The wheel of a library for a release of CuPy; None if no such wheel is known."""
    rows = (row for row in _rows() if (row.library, row.cuda) == (name, str(cuda_major)))
    return next((row for row in rows if in_range(cupy, row.cupy)), None)


def optional_libraries() -> tuple[str, ...]:
    """The names of the libraries."""
    return tuple(dict.fromkeys(row.library for row in _rows()))


def _rows() -> Iterator[OptionalLibrary]:
    return (OptionalLibrary(*row) for row in read_rows("optional_wheels.csv")[1:])


def added_packages(packages: Sequence[str], files: Sequence[Path]) -> AddedPackages:
    """The packages of ``--package`` and ``--requirements``.

    Raises:
        AddedPackageError: for a requirement that cannot be locked.
    """
    added = AddedPackages()
    for text in packages:
        added.requirements.append(_requirement(text, f"--package {text}"))
    for path in files:
        _read(path, added, added.requirements)
    return added


def _requirement(text: str, where: str) -> str:
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise AddedPackageError(
            f"{where}: expected a name, with a version or not, such as pandas or 'pandas>=2'; files, folders and "
            "repositories have no wheel in the index that could be locked"
        ) from error
    if requirement.url:
        raise AddedPackageError(f"{where}: an address cannot be locked; name a release that the index has")
    return str(requirement)


def _read(path: Path, added: AddedPackages, into: list[str], above: tuple[str, ...] = (), place: str = "") -> None:
    """Reads a requirements file and its includes; ``above`` are the real paths of the files that include it."""
    try:
        text = read_regular(path, _LARGEST).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise AddedPackageError(f"{path}{place}: {error_reason(error)}") from error
    real = os.path.realpath(path)
    if real in above:
        raise AddedPackageError(f"{path}{place}: it includes itself")
    for number, line in logical_lines(text):
        where = f"{path}, line {number}"
        include = _INCLUDE.match(line)
        if include:
            other = path.parent / include[2].strip()
            entries = added.constraints if include[1] in ("-c", "--constraint") else into
            _read(other, added, entries, (*above, real), f" (from {where})")
        elif line.startswith("-"):
            raise AddedPackageError(f"{where}: {_refused(line.split('=')[0].split()[0])}")
        else:
            entry = _requirement(_HASH.sub("", line), where)
            into.append(entry)
            if digests := set(_HASH.findall(line)):
                added.digests.setdefault(canonicalize_name(Requirement(entry).name), set()).update(digests)


def _refused(option: str) -> str:
    if _INDEX.fullmatch(option):
        return (
            f"{option} cannot be honoured: an image is locked on one index; name it with PIP_INDEX_URL or --pip-config"
        )
    if option in ("-e", "--editable"):
        return f"{option} cannot be honoured: an image has only wheels of the index; install it on top: FROM this image"
    return f"{option} cannot be honoured by a build of locked wheels; remove it"


_GLIBC = 28  # no wheel of CuPy or CUDA requires a newer one, and every base has it
# Before, pip held what a wheel says of its Python against the one that pip itself runs in, and before 23.3 it took no
# platform at all (measured on 2026-11-22 of 22.2, 22.3.1, 23.2.1, 23.3, 24.0, 24.1, 24.1.2, 24.2, 25.0, 26.0).
_FIRST_PIP = Version("24.2")
_ARCH = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}


class NoWheelsError(ValueError):
    """The index has no wheels for an image; the message is the installer's."""


def lock_image(
    caller: InstallerRun,
    requirements: Sequence[str],
    python: str,
    platform: str,
    added: AddedPackages = AddedPackages(),  # noqa: B008 - nothing changes it
) -> tuple[Pin, ...]:
    """The wheels for a Python and a platform such as ``linux/amd64``, with the constraints and digests of ``added``.

    Raises:
        NoWheelsError: if the index has no consistent set of wheels.
        TargetUnusable: if pip is too old to resolve for another Python.
        InstallError: if the installer fails.
    """
    installer = caller.installer
    if isinstance(installer, Pip) and Version(installer.version) < _FIRST_PIP:
        raise TargetUnusable(
            f"{installer.label} resolves wheels for its own Python only, and the image has another one",
            f"Install uv: pipx install uv, or python -m pip install uv; or pip {_FIRST_PIP} or newer",
        )
    image = TargetPlatform(python, _ARCH[platform], _GLIBC)
    words = image.uv_options if installer.locks_as_toml else image.pip_options
    lock, why = make_lock(caller, requirements, added.constraints, words)
    if lock is None:
        raise offline_failure(why, requirements, caller) or NoWheelsError(why)
    cupys = [f"{pin.name} {pin.release}" for pin in lock.pins if is_cupy(pin.name)]
    if len(cupys) > 1:
        raise NoWheelsError(f"one image cannot have {' and '.join(cupys)}: each is the package cupy")
    return tuple(_with_digests(pin, added.digests) for pin in sorted(lock.pins, key=lambda pin: pin.name))


def _with_digests(pin: Pin, digests: Mapping[str, Collection[str]]) -> Pin:
    """A pin with the digests that the user's file allows."""
    if pin.name not in digests:
        return pin
    allowed = tuple(digest for digest in pin.sha256 if digest in digests[pin.name])
    if not allowed:
        raise NoWheelsError(f"{pin.name} {pin.release}: no wheel of the index has a digest of the requirements file")
    return replace(pin, sha256=allowed)


_INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
_EXTRA_INDEX_VARIABLES = ("UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL")


def pip_configuration(environment: Mapping[str, str]) -> str | None:
    """A pip.conf with the indexes of the caller's variables; None without an index that a build could reach.

    The addresses may contain passwords: the text is a build secret, never part of an image.
    """
    index = next((environment[name] for name in _INDEX_VARIABLES if _remote(environment.get(name, ""))), None)
    extra = [word for name in _EXTRA_INDEX_VARIABLES for word in environment.get(name, "").split() if _remote(word)]
    rows = [f"index-url = {_address(index)}"] if index else []
    rows += [f"extra-index-url = {' '.join(map(_address, extra))}"] if extra else []
    hosts = environment.get("PIP_TRUSTED_HOST")
    rows += [f"trusted-host = {' '.join(hosts.split())}"] if rows and hosts else []
    return "\n".join(["[global]", *rows, ""]) if rows else None


def _remote(word: str) -> bool:
    return _address(word).startswith(("http://", "https://")) and len(word.split()) == 1


def _address(word: str) -> str:
    """The address of an index, which uv may write as ``name=address``."""
    name, _, rest = word.partition("=")
    return rest if rest and name.replace("-", "").replace("_", "").isalnum() else word
