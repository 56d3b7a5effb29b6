"""Judges every candidate by every constraint, keeps all rejections, chooses last, and words the reasons.

Why a release is rejected is decided in ``constraints.py``, one function each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from gpuenv.matrix.alternatives import JudgedImage, conda_candidates, conda_choice, experimental, judge_images
from gpuenv.matrix.candidates import (
    WheelCandidate,
    by_preference,
    host_toolkit,
    installable,
    lacking_libraries,
    minors_of,
    nvrtc_of_others,
    replaced_by,
    serving_minors,
    shares_libraries,
)
from gpuenv.matrix.constraints import LineVerdicts, Rejected, fits, objections, unusable_packages
from gpuenv.matrix.needs import Needs, needs_of
from gpuenv.matrix.ranges import in_range, version_of
from gpuenv.matrix.tables import Matrix
from gpuenv.model.cupy import cuda_major
from gpuenv.model.resolution import (
    BY_CALLER,
    Assumption,
    Candidate,
    CandidateKind,
    Change,
    ConstraintName,
    ImageChoice,
    NvrtcRange,
    Reachable,
    Rejection,
    Resolution,
    WheelChoice,
)
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.strings import Lines, pattern
from gpuenv.model.versions import DriverVersion

_FLOOR = pattern(r">= (\d+(?:\.\d+)*)|branch (\d+) or newer")
_CEILING = pattern(r"branch (\d+) or older")


def merged(changes: Sequence[Change]) -> tuple[Change, ...] | None:
    """Merges changes per fact; returns None if two of them conflict."""
    found: dict[str, Change] = {}
    for change in changes:
        earlier = found.get(change.fact)
        combined = change if earlier is None else _both(earlier, change)
        if combined is None:
            return None
        found[change.fact] = combined
    return tuple(found.values())


def driver_floor(text: str) -> DriverVersion | None:
    """Returns the oldest driver that ``>= 580.65.06`` or ``branch 570 or newer`` admits."""
    floor = _FLOOR.search(text)
    return DriverVersion.parse(floor[1] or floor[2]) if floor else None


def _both(one: Change, other: Change) -> Change | None:
    if one.needed == other.needed:
        return one
    if one.fact != "driver.version":
        return None
    floors = [change for change in (one, other) if driver_floor(change.needed)]
    ceilings = [int(ceiling[1]) for change in (one, other) if (ceiling := _CEILING.search(change.needed))]
    if not floors:
        return Change(one.fact, f"branch {min(ceilings)} or older", one.found)
    floor = max(floors, key=lambda change: driver_floor(change.needed) or DriverVersion("", ()))
    lowest = driver_floor(floor.needed)
    if lowest is None or (ceilings and lowest.branch > min(ceilings)):
        return None
    needed = _CEILING.sub("", floor.needed).rstrip(", ")
    return Change(one.fact, f"{needed}, branch {min(ceilings)} or older" if ceilings else needed, one.found)


class JudgedWheel(NamedTuple):
    """A candidate with its rejections and the assumptions of choosing it."""

    wheel: WheelCandidate
    rejections: tuple[Rejection, ...]
    changes: tuple[Change, ...] | None
    assumptions: tuple[Assumption, ...]

    @property
    def fits(self) -> bool:
        """Whether it has no rejections."""
        return not self.rejections


def resolve(snapshot: Snapshot, matrix: Matrix, *, wheels_only: bool = False) -> Resolution:
    """Returns the wheel, the conda specification and the image that fit best, and the reasons against others.

    ``wheels_only`` skips conda and images, for many machines.
    """
    return _resolve(needs_of(snapshot, matrix), matrix, wheels_only=wheels_only)


def resolve_all(snapshots: Iterable[Snapshot], matrix: Matrix, *, wheels_only: bool = False) -> list[Resolution]:
    """Returns the resolution of every machine, as ``resolve`` does; machines with equal needs share one."""
    found: dict[tuple[Needs, str], Resolution] = {}
    resolutions = []
    for snapshot in snapshots:
        needs = needs_of(snapshot, matrix)
        key = needs, str(needs.driver)  # equal drivers may be written differently, and explanations quote them
        if key not in found:
            found[key] = _resolve(needs, matrix, wheels_only=wheels_only)
        resolutions.append(found[key])
    return resolutions


def _resolve(needs: Needs, matrix: Matrix, *, wheels_only: bool) -> Resolution:
    lines = LineVerdicts(needs, matrix)
    judged = [judge(wheel, needs, matrix, lines) for wheel in by_preference(needs, matrix)]
    chosen = next((entry for entry in judged if entry.fits), None)
    reachable = _lasting(_reachable(judged), matrix)
    assumptions = tuple(Assumption(path, BY_CALLER) for path in needs.assumed)
    conda = [] if wheels_only else [judge(wheel, needs, matrix, lines) for wheel in conda_candidates(matrix)]
    in_conda = next((entry for entry in conda if entry.fits), None)
    images = () if wheels_only else judge_images(needs, matrix, lines)
    for_amd, against_amd = experimental(needs, matrix)
    resolution = Resolution(
        wheel=wheel_choice(chosen.wheel, needs, matrix) if chosen else None,
        conda=conda_choice(in_conda.wheel, in_conda.assumptions, needs, matrix) if in_conda else None,
        image=_image(images, needs, matrix),
        rejected=(
            *(rejection for entry in (*judged, *conda) for rejection in entry.rejections),
            *(rejection for entry in images for rejection in entry.rejections),
            *against_amd,
        ),
        assumptions=tuple(dict.fromkeys(assumptions + (chosen.assumptions if chosen else ()))),
        next_better=_next_better(judged, chosen, reachable, needs),
        reachable=reachable,
        explanation="",
        matrix_revision=matrix.revision,
        experimental=for_amd,
        unusable=tuple(unusable_packages(needs, matrix)),
    )
    left = [entry.wheel for entry in judged if entry.fits]
    fitting = [wheel.candidate for wheel in left if wheel.line.last_cuda is None or wheel is left[0]]
    explanation = [*_explain(needs, resolution, fitting), *_below(needs, matrix)]
    return resolution._replace(explanation=Lines(explanation))


def _below(needs: Needs, matrix: Matrix) -> Iterator[str]:
    """Yields notes on a driver or a CuPy older than the matrix covers."""
    branch = min((row.branch for row in matrix.driver_branches), default=0)
    if needs.driver is not None and needs.driver.branch < branch and not needs.tegra:
        yield f"Driver {needs.driver} is older than the matrix covers (branch {branch} and newer)."
    releases = (release.cupy for line in matrix.wheel_lines for release in line.releases)
    oldest = min(releases, key=version_of, default="0")
    for name, release in needs.cupy:
        if in_range(release, f"<{oldest}"):
            yield f"{name} {release} is older than the matrix covers (CuPy {oldest} and newer)."


def _image(judged: Sequence[JudgedImage], needs: Needs, matrix: Matrix) -> ImageChoice | None:
    chosen = next((entry for entry in judged if not entry.rejections), None)
    if chosen is None or chosen.wheel is None:
        return None
    row = chosen.image
    requirements = () if row.line else wheel_choice(chosen.wheel, needs, matrix).requirements
    return ImageChoice(row.reference, row.digest, row.cuda, requirements)


def choose(snapshot: Snapshot, matrix: Matrix) -> WheelChoice | None:
    """Returns the wheel that ``resolve`` would choose, without reasons, for many machines."""
    needs = needs_of(snapshot, matrix)
    for wheel in by_preference(needs, matrix):
        if fits(wheel, needs, matrix):
            return wheel_choice(wheel, needs, matrix)
    return None


def judge(wheel: WheelCandidate, needs: Needs, matrix: Matrix, lines: LineVerdicts | None = None) -> JudgedWheel:
    """Evaluates every constraint for a candidate; ``changes`` is None if a rejection cannot be lifted."""
    rejections: list[Rejection] = []
    changes: list[Change | None] = []
    assumptions: list[Assumption] = []
    candidate = wheel.candidate
    for name, verdict in objections(wheel, needs, matrix, lines):
        if isinstance(verdict, Rejected):
            rejections.append(Rejection(candidate, name, verdict.needed, verdict.found, verdict.source))
            changes.append(verdict.change)
        else:
            assumptions.append(Assumption(verdict.fact, verdict.value))
    possible = [change for change in changes if change is not None]
    liftable = merged(possible) if len(possible) == len(changes) else None
    return JudgedWheel(wheel, tuple(rejections), liftable, tuple(assumptions))


def wheel_choice(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> WheelChoice:
    """Returns a candidate as input for an installer."""
    serving = installable(serving_minors(wheel, needs, matrix), wheel, needs)
    known = any(gpu.compute_capability for gpu in needs.gpus)
    name = f"{wheel.line.name}[{wheel.extra}]" if wheel.extra else wheel.line.name
    return WheelChoice(
        distribution=wheel.line.name,
        version=wheel.release.cupy,
        extra=wheel.extra,
        requirements=(f"{name}=={wheel.release.cupy}", *_toolkit_pins(wheel, needs, matrix)),
        cuda_major=wheel.line.cuda_major,
        nvrtc=NvrtcRange(serving[0].cuda, serving[-1].cuda) if known and serving else None,
        needs_toolkit=_needs_toolkit(wheel, needs, matrix),
        tags=_tags(wheel, needs),
        replaces=replaced_by(wheel, needs),
    )


def _toolkit_pins(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> tuple[str, ...]:
    """Returns requirements on CUDA wheels: what other packages lack, or a minor version that supports these GPUs.

    Without the latter, the extra installs the newest minor version.
    """
    if shares_libraries(wheel, needs, matrix):
        return lacking_libraries(wheel, needs, matrix)
    serving = installable(serving_minors(wheel, needs, matrix), wheel, needs)
    nvrtc = nvrtc_of_others(wheel, needs) if wheel.extra else None
    if nvrtc in [row.cuda for row in serving]:
        return (f"cuda-toolkit=={nvrtc}.*",)
    offered = installable(minors_of(wheel, matrix), wheel, needs)
    if wheel.extra is None or not serving or len(serving) == len(offered):
        return ()
    if serving[-1] is offered[-1]:
        return (f"cuda-toolkit>={serving[0].cuda},<{wheel.line.cuda_major + 1}",)
    return (f"cuda-toolkit=={serving[-1].cuda}.*",)


def _needs_toolkit(wheel: WheelCandidate, needs: Needs, matrix: Matrix) -> str | None:
    if wheel.extra is not None or shares_libraries(wheel, needs, matrix):
        return None
    serving = serving_minors(wheel, needs, matrix)
    span = f"CUDA {serving[0].cuda}" + (f" to {serving[-1].cuda}" if len(serving) > 1 else "")
    folder = host_toolkit(wheel, needs, matrix)
    found = f"; the one in {folder} fits" if folder else ""
    return f"the libraries and headers of a toolkit, {span}{found}"


def _tags(wheel: WheelCandidate, needs: Needs) -> tuple[str, ...]:
    row = wheel.platform(needs)
    if row is None or needs.python is None:
        return ()
    interpreter = f"cp{needs.python.major}{needs.python.minor}"
    return (f"{interpreter}-{needs.python.abi}-{row.tag}",)


def _reachable(judged: Sequence[JudgedWheel]) -> tuple[Reachable, ...]:
    """Returns the best candidate of each line that changes would admit, in order of preference."""
    best: dict[str, Reachable] = {}
    for entry in judged:
        if not entry.fits and entry.changes is not None:
            found = Reachable(entry.wheel.candidate, entry.changes)
            previous = best.get(entry.wheel.line.name)
            if previous is None or len(found.changes) < len(previous.changes):
                best[entry.wheel.line.name] = found
    return tuple(best.values())


def _size(entry: Reachable) -> tuple[int, tuple[int, ...]]:
    """Returns the number of changes and the required driver."""
    floors = (driver_floor(change.needed) for change in entry.changes if change.fact == "driver.version")
    return len(entry.changes), next((floor.parts for floor in floors if floor is not None), ())


def _lasting(reachable: tuple[Reachable, ...], matrix: Matrix) -> tuple[Reachable, ...]:
    """Drops lines for a single old CUDA version, unless there are no others."""
    ended = {line.name for line in matrix.wheel_lines if line.last_cuda is not None}
    return tuple(entry for entry in reachable if entry.candidate.name not in ended) or reachable


def _next_better(
    judged: Sequence[JudgedWheel], chosen: JudgedWheel | None, reachable: Sequence[Reachable], needs: Needs
) -> Reachable | None:
    """Returns the better candidate with the fewest changes; without a choice, the one with the smallest change.

    Without any driver, the newest one is no larger a change than an old one.
    """
    if chosen is None and needs.driver_absent:
        return min(reachable, key=lambda entry: len(entry.changes), default=None)
    if chosen is None:
        return min(reachable, key=_size, default=None)
    better = [
        entry
        for entry in judged[: judged.index(chosen)]
        if entry.changes is not None and entry.wheel.release is not chosen.wheel.release
    ]
    if not better:
        return None
    nearest = min(better, key=lambda entry: len(entry.changes or ()))
    return Reachable(nearest.wheel.candidate, nearest.changes or ())


_WORDS = {
    "driver.version": "driver",
    "target.python": "Python",
    "target.numpy": "NumPy",
    "gpus": "a GPU",
    "driver.cuda": "libcuda of CUDA",
}
_GPU_CONSTRAINTS = (ConstraintName.NVRTC_COMPILES_FOR_GPU, ConstraintName.WHEEL_HAS_CODE_FOR_GPU)


def _explain(needs: Needs, resolution: Resolution, fitting: Sequence[Candidate]) -> list[str]:
    """Explains the choice: the machine, the rejected candidates with reasons, and the changes that would help.

    ``fitting`` are the candidates without rejections, the best first.
    """
    wheel, reachable, better = resolution.wheel, resolution.reachable, resolution.next_better
    extra = f"[{wheel.extra}]" if wheel and wheel.extra else ""
    lines = [f"{wheel.distribution}{extra} {wheel.version} fits best." if wheel else "No wheel of CuPy fits."]
    facts = (needs.driver_label, needs.gpus_label, f"Python {needs.python or 'unknown'}", needs.platform, needs.libc)
    lines.append(f"Decided for {', '.join(str(fact) for fact in facts if fact is not None)}.")
    seen = {wheel.distribution} if wheel else set()
    for candidate in fitting:
        if candidate.name not in seen:
            seen.add(candidate.name)
            lines.append(f"Also fits: {candidate.label}.")
    lines += reasons(resolution)
    unknown = [entry for entry in resolution.assumptions if entry.value != BY_CALLER]
    if unknown:
        lines.append("Assumed (unknown): " + "; ".join(f"{a.fact} is {a.value}" for a in unknown) + ".")
    if resolution.conda is not None:
        lines.append(f"With conda: {' '.join(resolution.conda.specs)} from {resolution.conda.channel}.")
    if resolution.image is not None:
        packages = " ".join(resolution.image.requirements)
        then = f", and in it {packages}" if packages else ""
        caveat = "" if resolution.image.digest else " Its digest is unknown: no registry was queried."
        lines.append(f"In a container: {resolution.image.reference}{then}.{caveat}")
    for entry in resolution.experimental:
        rests = " and ".join(f"{assumption.fact} is {assumption.value}" for assumption in entry.assumptions)
        lines.append(f"Experimental: {entry.candidate.label}, if {rests}.")
    if wheel is None:
        lines += [f"{entry.candidate.label} would fit with {changes_text(entry)}." for entry in reachable]
    if better is not None:
        kind = "Smallest change" if wheel is None else "Next better"
        lines.append(f"{kind}: {better.candidate.label} with {changes_text(better)}.")
    return lines


def changes_text(entry: Reachable) -> str:
    """Formats changes: ``driver >= 580.65.06 and NumPy >=2.0``."""
    return " and ".join(map(change_text, entry.changes))


def change_text(change: Change) -> str:
    """Formats a change: ``driver >= 580.65.06``."""
    return f"{_WORDS.get(change.fact, change.fact.removeprefix('target.packages.'))} {change.needed}"


def reasons(resolution: Resolution, *, newer_only: bool = False) -> Iterator[str]:
    """Yields the reasons against better candidates than the choice, and the packages that cannot use the GPUs.

    Of each CUDA major version, from that of the choice on, only the newest release is named; with ``newer_only`` not
    the release of the choice for a newer CUDA.
    """
    wheel, seen = resolution.wheel, set[int | None]()
    rejected = {entry.candidate for entry in resolution.rejected}
    wheels = (entry for entry in resolution.rejected if entry.candidate.kind is CandidateKind.WHEEL)
    for candidate, group in groupby(wheels, key=lambda entry: entry.candidate):
        if candidate.extra is not None:  # what rejects a release without an extra also rejects it with one
            only_extra = candidate._replace(extra=None) not in rejected
            if only_extra and wheel and _is_better(candidate, wheel, newer_only=newer_only):
                yield f"Not {candidate.label}: {_why(group)}."
            continue
        major = cuda_major(candidate.name)
        if major not in seen and (wheel is None or _is_better(candidate, wheel, newer_only=newer_only)):
            yield f"Not {candidate.label}: {_why(group)}."
        seen.add(major)
    for (cuda, needed, found), packages in groupby(resolution.unusable, key=lambda entry: entry[1:4]):
        names = ", ".join(entry.package for entry in packages)
        yield f"{names}, built for CUDA {cuda}, cannot use this GPU: needs {needed}, found {found}."


def _is_better(candidate: Candidate, wheel: WheelChoice, *, newer_only: bool) -> bool:
    """Whether a release is newer than the choice, or the same for a newer CUDA; not for an older CUDA."""
    if (cuda_major(candidate.name) or wheel.cuda_major) < wheel.cuda_major:
        return False
    if candidate.version == wheel.version:
        return not newer_only
    return version_of(candidate.version) > version_of(wheel.version)


def _why(rejections: Iterable[Rejection]) -> str:
    """Formats the rejections of a candidate; of two for a GPU, one suffices."""
    entries = list(rejections)
    of_gpu = [entry for entry in entries if entry.constraint in _GPU_CONSTRAINTS]
    return "; ".join(f"needs {entry.needed}, found {entry.found}" for entry in entries if entry not in of_gpu[1:])
