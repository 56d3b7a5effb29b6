"""What ``doctor --fix`` can repair by a transaction inside the target, and what it would have to install."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gpuenv.doctor.fixes.packages import name_in, names_in
from gpuenv.doctor.installed import first_cuda_major, is_clearable, other_releases
from gpuenv.doctor.registry import RepairKind, find_check
from gpuenv.matrix.tables import Matrix
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Finding, Severity
from gpuenv.model.reading import Reading, missing
from gpuenv.model.resolution import Resolution, WheelChoice
from gpuenv.model.snapshot import FileState, Snapshot

_REPLACING = (RepairKind.REPLACE, RepairKind.REPLACE_WITH_LIBRARIES)
_REINSTALLING = (RepairKind.REINSTALL, RepairKind.REINSTALL_CRASHING)
_SEVERAL = 2


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """What a transaction has to repair.

    Attributes:
        codes: of the findings that it repairs.
        choice: whether another CuPy may be chosen.
        with_libraries: whether that choice has to include CUDA's libraries.
        again: distributions to reinstall.
        sonames: libraries whose distributions are to be reinstalled.
        more: further requirements to install.
        afresh: whether an installer's cache may be damaged too.
        cleared: distributions with metadata of another release, which is removed.
    """

    codes: tuple[str, ...]
    choice: bool = False
    with_libraries: bool = False
    again: tuple[str, ...] = ()
    sonames: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    afresh: bool = False
    cleared: tuple[str, ...] = ()


def repair_plan(findings: Sequence[Finding], snapshot: Snapshot) -> RepairPlan | None:
    """What a transaction can repair of these findings; None where it can repair nothing.

    Notes are left alone. A finding without a safe fix (a Python that the system manages) is for a person.
    """
    ours = []
    for finding in findings:
        check = find_check(finding.code)
        kind = check.repair if check else None
        if kind and finding.severity is not Severity.NOTE and _is_safe(finding, kind, snapshot):
            ours.append((finding, kind))
    if not ours:
        return None
    kinds, target = {kind for _, kind in ours}, snapshot.target
    reinstalled = _requirements(finding for finding, kind in ours if kind in _REINSTALLING)
    again = tuple(dict.fromkeys(map(name_in, reinstalled)))
    lost = [entry.soname for entry in target.libraries if (entry.error or "").startswith("loading it")]
    left = (entry.name for entry in other_releases(target) if is_clearable(entry, target))
    # uv links files from its cache, and one that was changed, and not deleted, is changed there.
    changed = (entry for entry in target.file_faults if entry.state in (FileState.WRONG_SIZE, FileState.CHANGED))
    return RepairPlan(
        codes=tuple(dict.fromkeys(finding.code for finding, _ in ours)),
        choice=not kinds.isdisjoint(_REPLACING),
        with_libraries=RepairKind.REPLACE_WITH_LIBRARIES in kinds,
        again=again,
        sonames=tuple(lost) if RepairKind.REINSTALL_CRASHING in kinds else (),
        more=tuple(_requirements(finding for finding, kind in ours if kind is RepairKind.ADD)),
        afresh=bool(lost) or any({*entry.distributions} & {*again} for entry in changed),
        cleared=tuple(dict.fromkeys(left)) if RepairKind.CLEAR in kinds else (),
    )


def _requirements(findings: Iterable[Finding]) -> Iterator[str]:
    """What the installs by pip or uv in their fixes name."""
    for fix in (fix for finding in findings for fix in finding.fix if fix.safe):
        words = fix.command or ()
        yield from names_in(words[words.index("install") + 1 :]) if "install" in words else ()


def _is_safe(finding: Finding, kind: RepairKind, snapshot: Snapshot) -> bool:
    """Whether gpuenv may repair it inside the target; between pip and conda a person chooses."""
    if finding.cause is Cause.MIXED_PIP_CONDA:
        return False
    own = {entry.distribution for entry in snapshot.target.cupy if entry.is_own}
    if finding.cause is Cause.MULTIPLE_CUPY_PACKAGES and len(own) < _SEVERAL:
        return False  # what lies elsewhere, with the user's own packages too, no transaction in the target removes
    if any(fix.safe for fix in finding.fix):
        return True
    return kind in _REPLACING and not snapshot.target.externally_managed.value


def choices(snapshot: Snapshot, matrix: Matrix, preferred: Resolution) -> Iterator[Matrix]:
    """The matrix narrowed to the installed release, then to its line, then not at all, so that little changes.

    Of several lines the resolver's ``preferred`` one comes first.
    """
    best = preferred.wheel.distribution if preferred.wheel else None
    there = sorted(snapshot.target.cupy, key=lambda entry: entry.distribution != best)
    for entry in there:
        for line in matrix.wheel_lines:
            releases = [release for release in line.releases if release.cupy == entry.release]
            if line.name == entry.distribution and releases:
                yield replace(matrix, wheel_lines=(line._replace(releases=tuple(releases)),))
    for entry in there:
        lines = tuple(line for line in matrix.wheel_lines if line.name == entry.distribution)
        if lines:
            yield replace(matrix, wheel_lines=lines)
    yield matrix


def with_any_numpy(snapshot: Snapshot) -> Snapshot:
    """The same target without its NumPy: what could be chosen if NumPy might move."""
    free: Reading[str] = missing("whatever CuPy brings along")
    return snapshot._replace(target=snapshot.target._replace(numpy=free))


def satisfies(wheel: WheelChoice, wound: RepairPlan, snapshot: Snapshot) -> bool:
    """Whether a choice repairs it: CUDA's libraries come with it or are there already."""
    if wheel.extra is not None or wound.with_libraries:
        return wheel.extra is not None
    # Any CuPy finds the libraries outside of wheels, and those of the host's toolkits.
    target = snapshot.target
    by_all = _all_found(snapshot) and not any("/site-packages/" in (entry.path or "") for entry in target.libraries)
    whole = [kit for kit in snapshot.toolkits if kit.has_nvrtc and kit.has_headers and not kit.in_target]
    majors = {kit.toolkit.value.major for kit in whole if kit.toolkit.value}
    return wheel.cuda_major in majors or (by_all and wheel.cuda_major == first_cuda_major(target))


def loses_libraries(wheel: WheelChoice, wound: RepairPlan, snapshot: Snapshot) -> bool:
    """Whether CuPy would find its libraries no more: those of wheels are found from CuPy 14 on alone."""
    return _all_found(snapshot) and not satisfies(wheel, wound, snapshot)


def _all_found(snapshot: Snapshot) -> bool:
    needed = [entry for entry in snapshot.target.libraries if not entry.optional]
    return bool(needed) and all(entry.path for entry in needed)


def as_it_is(snapshot: Snapshot) -> tuple[str, ...]:
    """The CuPy that is there, as a requirement: nothing of it is to change."""
    return tuple(f"{entry.distribution}=={entry.release}" for entry in snapshot.target.cupy[:1])
