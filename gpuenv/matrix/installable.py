"""What a constraint says of a wheel, and the constraints on where it can be installed at all. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuenv.matrix.candidates import WheelCandidate
from gpuenv.matrix.needs import Needs
from gpuenv.matrix.ranges import within
from gpuenv.matrix.records import Matrix
from gpuenv.model.resolution import Change, ConstraintName


@dataclass(frozen=True, slots=True)
class Fits:
    """Nothing stands against it."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """It cannot work. ``change`` is the change that would lift this, where a user could make it."""

    needed: str
    found: str
    source: str
    change: Change | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """The fact is not known; choosing this candidate assumes ``value``."""

    fact: str
    value: str


Verdict = Fits | Rejected | Unknown
Constraint = Callable[[WheelCandidate, Needs, Matrix], Verdict]


def not_yanked(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> Verdict:
    """A withdrawn release is not chosen."""
    del needs
    if wheel.release.yanked is None:
        return Fits()
    return Rejected("a release that stands", f"withdrawn: {wheel.release.yanked}", matrix.cite(wheel.release.source))


def platform(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> Verdict:
    """The release has wheels for this operating system and architecture."""
    if wheel.platform(needs) is not None:
        return Unknown(*needs.platform_assumed) if needs.platform_assumed else Fits()
    return Rejected(" or ".join(wheel.release.platforms), needs.likely_platform, matrix.cite(wheel.release.source))


def libc(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> Verdict:
    """The C library is of the family, and no older than the one, that the wheels are built for."""
    row = wheel.platform(needs)
    if row is None or row.libc is None:
        return Fits()
    if needs.libc is None:
        also = wheel.brings.libc if wheel.brings else None
        return Unknown("host.libc", f"at least {max(row.libc, also) if also else row.libc}")
    if needs.libc.family == row.libc.family and needs.libc >= row.libc:
        return Fits()
    return Rejected(f"at least {row.libc}", str(needs.libc), matrix.cite(wheel.release.source))


def python(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> Verdict:
    """The release has a wheel for this Python."""
    row = wheel.platform(needs)
    without = row.without if row else ()
    known, implementation = needs.python, needs.implementation
    if (
        known
        and implementation in (None, "cpython")
        and known.tag in wheel.release.pythons
        and known.tag not in without
    ):
        return Fits()
    offered = ", ".join(_python_of(tag) for tag in wheel.release.pythons if tag not in without)
    if known is None:
        return Unknown("target.python", f"one of {offered}")
    source = matrix.cite(wheel.release.source)
    if implementation not in (None, "cpython"):
        return Rejected(f"CPython {offered}", str(implementation), source)
    return Rejected(f"Python {offered}", str(known), source, Change("target.python", offered, str(known)))


def numpy(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> Verdict:
    """The NumPy that is there is in the range that CuPy asks for; none there is no hindrance."""
    if needs.numpy is None or in_range(needs.numpy, wheel.release.numpy):
        return Fits()
    if in_range(needs.numpy, wheel.release.numpy) is None:
        return Unknown("target.numpy", wheel.release.numpy)
    change = Change("target.numpy", wheel.release.numpy, needs.numpy)
    return Rejected(f"NumPy {wheel.release.numpy}", needs.numpy, matrix.cite(wheel.release.source), change)


def in_range(release: str, wanted: str) -> bool | None:
    """Whether a release is in a version range; None where it is no version."""
    try:
        return within(release, wanted)
    except ValueError:  # InvalidVersion, or more digits than int takes
        return None


def _python_of(tag: str) -> str:
    return f"{tag[2]}.{tag[3:]}"


INSTALLABLE: tuple[tuple[ConstraintName, Constraint], ...] = (
    (ConstraintName.NOT_YANKED, not_yanked),
    (ConstraintName.PLATFORM, platform),
    (ConstraintName.LIBC, libc),
    (ConstraintName.PYTHON, python),
    (ConstraintName.NUMPY, numpy),
)
