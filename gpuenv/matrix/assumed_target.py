"""``--assume`` of what is in the target environment: its Python, CuPy, NumPy, other packages, and a toolkit. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuenv.matrix.ranges import is_version
from gpuenv.matrix.records import Matrix
from gpuenv.model.cuda_libraries import WANTED, WantedLibrary
from gpuenv.model.lines import cuda_major_of, is_cupy
from gpuenv.model.reading import ASSUMED, assumed, missing
from gpuenv.model.snapshot import CupyInstallation, Library, Snapshot, SourceState, Toolkit
from gpuenv.model.versions import CudaVersion, PythonVersion

_NONE = "none"
_CUPY = "target.cupy"
_FOLDER = "an assumed folder"
_OF_THE_CUPY = ("libraries", "files")  # the sources that answer for the CuPy that is there, and for no other


def assume_python(snapshot: Snapshot, value: str, matrix: Matrix) -> Snapshot:
    """A CPython of this version."""
    del matrix
    target = replace(snapshot.target, python=assumed(PythonVersion.parse(value)), implementation=assumed("cpython"))
    return replace(snapshot, target=target).assuming("target.python")


def assume_cupy(snapshot: Snapshot, value: str, matrix: Matrix) -> Snapshot:
    """``cupy-cuda12x==14.2.0``, also as ``cupy-cuda12x[ctk]==14.2.0; sys_platform == "linux"``, or none."""
    del matrix
    kept = {entry: version for entry, version in snapshot.target.packages.items() if not is_cupy(entry)}
    if value.lower() == _NONE:
        return _with_cupy(snapshot, (), kept)
    name, release = _cupy_of(value)
    if [(entry.distribution, entry.release) for entry in snapshot.target.cupy] == [(name, release)]:
        return snapshot.assuming(_CUPY)  # what is known of it stands
    return _with_cupy(snapshot, (CupyInstallation(name, release),), {**kept, name: release})


def _with_cupy(snapshot: Snapshot, cupy: tuple[CupyInstallation, ...], packages: Mapping[str, str]) -> Snapshot:
    """Another CuPy, whose files and libraries nobody was asked for."""
    sources = tuple(source for source in snapshot.sources if source.name not in _OF_THE_CUPY)
    return replace(snapshot, target=snapshot.target.with_cupy(cupy, packages), sources=sources).assuming(_CUPY)


def with_libraries(snapshot: Snapshot) -> Snapshot:
    """What an assumed toolkit brings to a CuPy of its CUDA major version whose libraries nobody was asked for."""
    target, asked = snapshot.target, snapshot.source("libraries").state is not SourceState.NOT_ASKED
    if "toolkits" not in snapshot.assumed or not target.cupy or target.libraries or asked:
        return snapshot
    major = cuda_major_of(target.cupy[0].distribution, target.packages)
    levels = (kit.toolkit.value for kit in snapshot.toolkits)
    level = next((level for level in levels if level and level.major == major), None)
    if level is None:
        return snapshot
    found = tuple(_library(entry, level) for entry in WANTED.get(level.major, ()))
    return replace(snapshot, target=replace(target, libraries=found))


def _library(wanted: WantedLibrary, level: CudaVersion) -> Library:
    release = str(level) if wanted.name == "nvrtc" else None
    return Library(wanted.name, wanted.soname, f"{_FOLDER}/{wanted.soname}", ASSUMED, release=release)


def _cupy_of(value: str) -> tuple[str, str]:
    """The distribution and the version in a requirement of pip's; its extras and its marker are no facts.

    Raises:
        ValueError: for another distribution, or where it leaves the version open.
    """
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - only where one is given
    from packaging.utils import canonicalize_name  # noqa: PLC0415 - likewise

    expected = "expected a distribution of CuPy and its version, such as cupy-cuda12x==14.2.0"
    try:
        read = Requirement(value)
    except InvalidRequirement as error:
        raise ValueError(expected) from error
    pins = [entry.version for entry in read.specifier if entry.operator in ("==", "===")]
    name = canonicalize_name(read.name)
    if is_cupy(name) and read.specifier and (len(read.specifier) > 1 or not pins or not is_version(pins[0])):
        raise ValueError(f"{expected}; a range is no fact: preflight --require 'cupy{read.specifier}' asks for one")
    if not is_cupy(name) or not pins:
        raise ValueError(expected)
    return name, pins[0]


def assume_numpy(snapshot: Snapshot, value: str, matrix: Matrix) -> Snapshot:
    """A NumPy of this version, or none."""
    del matrix
    return assume_package(snapshot, "numpy", value)


def assume_package(snapshot: Snapshot, name: str, value: str) -> Snapshot:
    """A distribution of this version, or none."""
    from packaging.utils import canonicalize_name  # noqa: PLC0415 - only where one is given

    try:
        name = canonicalize_name(name, validate=True)
    except ValueError as error:
        raise ValueError("expected the name of a distribution, such as package.torch") from error
    if is_cupy(name):
        return _assume_cupy_package(snapshot, name, value)
    if value.lower() != _NONE and not is_version(value):
        raise ValueError("expected a version, or none")
    packages = {entry: release for entry, release in snapshot.target.packages.items() if entry != name}
    if value.lower() != _NONE:
        packages[name] = value
    target = replace(snapshot.target, packages=packages)
    if name == "numpy":
        target = replace(target, numpy=missing("assumed to be absent") if value.lower() == _NONE else assumed(value))
    return replace(snapshot, target=target).assuming(f"target.packages.{name}")


def _assume_cupy_package(snapshot: Snapshot, name: str, value: str) -> Snapshot:
    """One CuPy distribution beside those that are there, or one of them gone."""
    if value.lower() != _NONE and not is_version(value):
        raise ValueError("expected a version, or none")
    others = tuple(entry for entry in snapshot.target.cupy if entry.distribution != name)
    packages = {entry: release for entry, release in snapshot.target.packages.items() if entry != name}
    if value.lower() != _NONE:
        others += (CupyInstallation(name, value),)
        packages[name] = value
    return _with_cupy(snapshot, others, packages)


def assume_toolkit(snapshot: Snapshot, value: str, matrix: Matrix) -> Snapshot:
    """One CUDA toolkit with all that is in one, or none."""
    del matrix
    if value.lower() == _NONE:
        return replace(snapshot, toolkits=()).assuming("toolkits")
    toolkit = Toolkit(_FOLDER, ASSUMED, assumed(CudaVersion.parse(value)), has_nvrtc=True, has_headers=True)
    return replace(snapshot, toolkits=(toolkit,)).assuming("toolkits")
