"""What fits a machine, as ranges of releases for the solver of an installer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from gpuenv.matrix.candidates import by_preference, is_complete, wheel_candidates
from gpuenv.matrix.constraints import LineVerdicts, fits
from gpuenv.matrix.needs import needs_of
from gpuenv.matrix.ranges import in_range, same_release, version_of
from gpuenv.matrix.resolve import wheel_choice
from gpuenv.matrix.tables import Matrix
from gpuenv.model.cupy import is_cupy
from gpuenv.model.resolution import WheelChoice
from gpuenv.model.snapshot import Snapshot

Wanted = Sequence[Requirement]


class Offer(NamedTuple):
    """Releases of one wheel line that fit; a solver may choose any of them.

    Attributes:
        requirements: the range of releases, and pins of CUDA wheels; input for an installer.
        choices: the fitting releases, the best first; empty if the requirements are exact.
        is_complete: whether they have, or install, the CUDA libraries that they need.
    """

    requirements: tuple[str, ...]
    choices: tuple[WheelChoice, ...] = ()
    is_complete: bool = True

    def choice(self, release: str) -> WheelChoice | None:
        """Returns the choice of a release; None if it is not among them."""
        return next((entry for entry in self.choices if same_release(entry.version, release)), None)

    def without(self, release: str) -> Offer:
        """Returns the offer without a release that a solver chose, and that does not fit or is not known."""
        first, *others = self.requirements
        return self._replace(requirements=(f"{first},!={release}", *others))


def offers(snapshot: Snapshot, matrix: Matrix, wanted: Wanted = ()) -> tuple[Offer, ...]:
    """Returns every fitting release, in order of preference; each offer has one line, extra and set of CUDA wheels.

    ``wanted`` restricts CuPy: ``cupy-cuda12x<14`` and ``cupy!=14.1.0``.
    """
    needs = needs_of(snapshot, matrix)
    lines = LineVerdicts(needs, matrix)
    groups: dict[tuple[str, str | None, tuple[str, ...], str | None, bool], list[WheelChoice]] = {}
    for wheel in by_preference(needs, matrix):
        if fits(wheel, needs, matrix, lines):
            choice = wheel_choice(wheel, needs, matrix)
            if all(_is_wanted(choice, entry) for entry in wanted):
                complete = is_complete(wheel, needs, matrix)
                key = choice.distribution, choice.extra, choice.requirements[1:], choice.needs_toolkit, complete
                groups.setdefault(key, []).append(choice)
    published = {line.name: [release.cupy for release in line.releases] for line in matrix.wheel_lines}
    return tuple(_offer(group, published[group[0].distribution], is_complete=key[-1]) for key, group in groups.items())


def _is_wanted(choice: WheelChoice, wanted: Requirement) -> bool:
    """Whether a requirement admits this choice: its release, and its extra if the requirement has one."""
    has_extra = not wanted.extras or wanted.extras == {choice.extra}
    return has_extra and names_release(wanted, choice.distribution, choice.version)


def names_release(wanted: Requirement, distribution: str, release: str) -> bool:
    """Whether a requirement names this line, or CuPy in general, and admits the release."""
    return _names_line(wanted, distribution) and wanted.specifier.contains(release, prereleases=True)


def _names_line(wanted: Requirement, distribution: str) -> bool:
    return canonicalize_name(wanted.name) in ("cupy", distribution)


def missing_extra(wanted: Wanted, matrix: Matrix) -> str | None:
    """The reason if the releases that the user restricts CuPy to lack an extra; None without such releases."""
    wheels = [wheel.candidate for wheel in wheel_candidates(matrix)]
    named = [wheel for wheel in wheels if all(names_release(entry, wheel.name, wheel.version) for entry in wanted)]
    for entry in wanted if named else ():
        having = [wheel for wheel in wheels if entry.extras == {wheel.extra} and _names_line(entry, wheel.name)]
        if entry.extras and not set(having).intersection(named):
            extra = f"[{','.join(sorted(entry.extras))}]"
            first = min((wheel.version for wheel in having), key=version_of, default=None)
            return f"{entry.name} has {f'the extra {extra} from {first} on' if first else f'no extra {extra}'}"
    return None


def parse_wanted(text: str) -> Requirement:
    """Parses what the user restricts CuPy to.

    Raises:
        ValueError: it is not a requirement on CuPy, or has a marker or a URL.
    """
    try:
        wanted = Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(f"{text!r} is not a requirement, such as 'cupy-cuda12x<14' or 'cupy==13.6.0'") from error
    if not is_cupy(canonicalize_name(wanted.name)):
        raise ValueError(f"{text!r} is not a requirement on CuPy, such as 'cupy-cuda12x<14' or 'cupy==13.6.0'")
    if wanted.url or wanted.marker:
        raise ValueError(f"{text!r}: markers and URLs are not supported here; write it as 'cupy-cuda12x<14'")
    return wanted


def _offer(choices: Sequence[WheelChoice], published: Sequence[str], *, is_complete: bool) -> Offer:
    releases = sorted((entry.version for entry in choices), key=version_of)
    best, name = choices[0], choices[0].distribution + (f"[{choices[0].extra}]" if choices[0].extra else "")
    if len(releases) == 1:
        return Offer(best.requirements, tuple(choices), is_complete)
    span = f">={releases[0]},<={releases[-1]}"
    unfit = (release for release in sorted(published, key=version_of) if release not in releases)
    excluded = "".join(f",!={release}" for release in unfit if in_range(release, span))
    return Offer((f"{name}{span}{excluded}", *best.requirements[1:]), tuple(choices), is_complete)
