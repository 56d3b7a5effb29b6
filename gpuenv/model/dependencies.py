"""Dependencies among installed distributions, from their metadata, and the lines of requirements files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from packaging.markers import InvalidMarker, Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

_COMMENT = re.compile(r"(?:^|\s)#.*$")


@dataclass(frozen=True, slots=True)
class Package:
    """A distribution with its requirements and extras."""

    name: str
    release: str
    requires: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()


class Dependency(NamedTuple):
    """A requirement of one distribution (``by``) on another (``name``)."""

    by: str
    name: str
    specifier: str  # empty for any version
    extras: tuple[str, ...]
    text: str  # as in the metadata

    def is_met(self, installed: Mapping[str, Package]) -> bool:
        """Whether a release that satisfies it is among the installed distributions."""
        package = installed.get(self.name)
        if package is None:
            return False
        try:
            return SpecifierSet(self.specifier).contains(Version(package.release), prereleases=True)
        except ValueError:  # InvalidVersion, or more digits than int takes
            return False


class UnmetRequirement(NamedTuple):
    """A requirement whose distribution is missing or has another version."""

    dependency: Dependency
    found: str | None

    def __str__(self) -> str:
        return f"{self.dependency.by} needs {self.dependency.text}, found {self.found or 'none'}"


def dependencies_of(packages: Iterable[Package], markers: Mapping[str, str]) -> tuple[Dependency, ...]:
    """All requirements of all distributions, including those of extras in use.

    An extra is in use if another distribution requires it, or if all its requirements are met: the extras that the user
    requested are not recorded.
    """
    installed = {package.name: package for package in packages}
    extras = {name: set(_complete_extras(package, installed, markers)) for name, package in installed.items()}
    while True:
        found = tuple(
            dependency
            for package in installed.values()
            for dependency in _requirements_of(package, extras[package.name], markers)
        )
        before = {name: set(names) for name, names in extras.items()}
        for dependency in found:
            if dependency.name in extras:
                extras[dependency.name] |= set(dependency.extras)
        if extras == before:
            return found


def unmet_requirements(packages: Iterable[Package], markers: Mapping[str, str]) -> tuple[UnmetRequirement, ...]:
    """The unmet requirements, as ``pip check`` finds them."""
    installed = {package.name: package for package in packages}
    dependencies = dependencies_of(installed.values(), markers)
    unmet = (
        UnmetRequirement(dependency, installed[dependency.name].release if dependency.name in installed else None)
        for dependency in dependencies
        if not dependency.is_met(installed)
    )
    return tuple(dict.fromkeys(unmet))


def needed(names: Iterable[str], packages: Iterable[Package], markers: Mapping[str, str]) -> frozenset[str]:
    """The distributions among ``names`` that others require, directly or indirectly."""
    candidates = set(names)
    found: set[str] = set()
    dependencies = dependencies_of(packages, markers)
    while True:
        more = {
            d.name for d in dependencies if d.name in candidates - found and (d.by not in candidates or d.by in found)
        }
        if not more:
            return frozenset(found)
        found |= more


def _complete_extras(package: Package, installed: Mapping[str, Package], markers: Mapping[str, str]) -> Iterator[str]:
    for extra in package.extras:
        additional = set(_requirements_of(package, {extra}, markers)) - set(_requirements_of(package, set(), markers))
        if additional and all(dependency.is_met(installed) for dependency in additional):
            yield extra


def _requirements_of(package: Package, extras: set[str], markers: Mapping[str, str]) -> Iterator[Dependency]:
    for text in package.requires:
        requirement = parse(text)
        if requirement is None or not applies(requirement, extras, markers):
            continue
        bare = str(requirement).split(";")[0].strip()
        needed_extras = tuple(sorted(canonicalize_name(extra) for extra in requirement.extras))
        name = canonicalize_name(requirement.name)
        yield Dependency(package.name, name, str(requirement.specifier), needed_extras, bare)


@lru_cache(maxsize=4096)
def parse(text: str) -> Requirement | None:
    """Parses a requirement; None if it is invalid."""
    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


def required_name(text: str) -> str | None:
    """The normalised name in a requirement; None if it is invalid."""
    requirement = parse(text)
    return canonicalize_name(requirement.name) if requirement else None


def allows(text: str, release: str | None) -> bool:
    """Whether a requirement allows a release; true if the requirement is invalid or no release is given."""
    requirement = parse(text)
    return requirement is None or release is None or requirement.specifier.contains(release, prereleases=True)


def marker_holds(text: str, markers: Mapping[str, str]) -> bool:
    """Evaluates an environment marker without extras; an empty one is true.

    Raises:
        ValueError: when it is invalid, or uses an unknown variable.
    """
    try:
        return not text or Marker(text).evaluate({**markers, "extra": ""})
    except (InvalidMarker, UndefinedComparison, UndefinedEnvironmentName, ValueError) as error:
        raise ValueError(f"the marker {text!r} cannot be judged here") from error


def applies(requirement: Requirement, extras: Iterable[str], markers: Mapping[str, str]) -> bool:
    """Whether a requirement's marker holds with one of these extras or none; true if it cannot be evaluated."""
    if requirement.marker is None:
        return True
    try:
        return any(requirement.marker.evaluate({**markers, "extra": extra}) for extra in ("", *extras))
    except (UndefinedEnvironmentName, ValueError):  # an invalid version, or one with too many digits
        return True


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """The numbered lines of a requirements file as pip reads them: joined, without comments and empty lines."""
    first, joined = 0, ""
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        first = first or number
        if line.endswith("\\") and not line.lstrip().startswith("#"):
            joined += line[:-1]
            continue
        content = _COMMENT.sub("", joined + line).strip()
        if content:
            yield first, content
        first, joined = 0, ""
