"""Dependencies among installed distributions, by their own metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from packaging.markers import InvalidMarker, Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version


@dataclass(frozen=True, slots=True)
class Package:
    """A distribution with its requirements and extras."""

    name: str
    release: str
    requires: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()


class Dependency(NamedTuple):
    """A requirement of one distribution (``by``) for another (``name``)."""

    by: str
    name: str
    specifier: str  # empty for any version
    extras: tuple[str, ...]
    text: str  # as the metadata has it

    def met_by(self, release: str) -> bool:
        """Whether a version satisfies it."""
        try:
            return SpecifierSet(self.specifier).contains(Version(release), prereleases=True)
        except ValueError:  # InvalidVersion, or more digits than int takes
            return False


class UnmetRequirement(NamedTuple):
    """An unmet requirement: the distribution is missing, or has another version."""

    want: Dependency
    found: str | None

    def __str__(self) -> str:
        return f"{self.want.by} needs {self.want.text}, found {self.found or 'none'}"


def dependencies_of(packages: Iterable[Package], markers: Mapping[str, str]) -> tuple[Dependency, ...]:
    """Every requirement of every distribution, including those of the extras in use.

    An extra is in use where another distribution requires it, or where all its requirements are met: which extras the
    user chose is recorded nowhere.
    """
    there = {package.name: package for package in packages}
    extras = {name: set(_complete_extras(package, there, markers)) for name, package in there.items()}
    while True:
        found = tuple(
            want for package in there.values() for want in _requirements_of(package, extras[package.name], markers)
        )
        before = {name: set(asked) for name, asked in extras.items()}
        for want in found:
            if want.name in extras:
                extras[want.name] |= set(want.extras)
        if extras == before:
            return found


def unmet_requirements(packages: Iterable[Package], markers: Mapping[str, str]) -> tuple[UnmetRequirement, ...]:
    """The requirements that are not met, as ``pip check`` finds them."""
    there = {package.name: package for package in packages}
    asked = dependencies_of(there.values(), markers)
    unmet = (
        UnmetRequirement(want, there[want.name].release if want.name in there else None)
        for want in asked
        if want.name not in there or not want.met_by(there[want.name].release)
    )
    return tuple(dict.fromkeys(unmet))


def needed(names: Iterable[str], packages: Iterable[Package], markers: Mapping[str, str]) -> frozenset[str]:
    """Of some distributions, those that others require, directly or through one another."""
    candidates = set(names)
    found: set[str] = set()
    asked = dependencies_of(packages, markers)
    while True:
        more = {w.name for w in asked if w.name in candidates - found and (w.by not in candidates or w.by in found)}
        if not more:
            return frozenset(found)
        found |= more


def _complete_extras(package: Package, there: Mapping[str, Package], markers: Mapping[str, str]) -> Iterator[str]:
    for extra in package.extras:
        beyond = set(_requirements_of(package, {extra}, markers)) - set(_requirements_of(package, set(), markers))
        if beyond and all(want.name in there and want.met_by(there[want.name].release) for want in beyond):
            yield extra


def _requirements_of(package: Package, extras: set[str], markers: Mapping[str, str]) -> Iterator[Dependency]:
    for text in package.requires:
        requirement = parse(text)
        if requirement is None or not _applies(requirement, extras, markers):
            continue
        bare = str(requirement).split(";")[0].strip()
        needed_extras = tuple(sorted(canonicalize_name(extra) for extra in requirement.extras))
        name = canonicalize_name(requirement.name)
        yield Dependency(package.name, name, str(requirement.specifier), needed_extras, bare)


@lru_cache(maxsize=4096)
def parse(text: str) -> Requirement | None:
    """A requirement; None for text that is none."""
    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


def required_name(text: str) -> str | None:
    """The normalised name in a requirement; None for text that is none."""
    requirement = parse(text)
    return canonicalize_name(requirement.name) if requirement else None


def allows(text: str, release: str | None) -> bool:
    """Whether a requirement allows a release; true for text that is none, and where no release is given."""
    requirement = parse(text)
    return requirement is None or release is None or requirement.specifier.contains(release, prereleases=True)


def marker_holds(text: str, markers: Mapping[str, str]) -> bool:
    """Whether an environment marker holds, with no extra; an empty one does.

    Raises:
        ValueError: when it is no marker, or needs a variable that is not there.
    """
    try:
        return not text or Marker(text).evaluate({**markers, "extra": ""})
    except (InvalidMarker, UndefinedComparison, UndefinedEnvironmentName, ValueError) as error:
        raise ValueError(f"the marker {text!r} cannot be judged here") from error


def _applies(requirement: Requirement, extras: set[str], markers: Mapping[str, str]) -> bool:
    if requirement.marker is None:
        return True
    try:
        return any(requirement.marker.evaluate({**markers, "extra": extra}) for extra in ("", *extras))
    except (UndefinedEnvironmentName, ValueError):  # no version, or one without end
        return True
