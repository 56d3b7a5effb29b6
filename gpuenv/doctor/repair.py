"""Which findings ``doctor --fix`` repairs by a transaction inside the target, and what it installs for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gpuenv.doctor.fixes.packages import canonical_name, requirement_arguments
from gpuenv.doctor.installed_cupy import first_cuda_major, is_clearable, stale_metadata
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
    """What a transaction repairs.

    Attributes:
        codes: of the findings that it repairs.
        may_replace: whether another CuPy may be chosen.
        with_libraries: whether that choice must include the CUDA libraries.
        reinstalled: distributions to reinstall.
        sonames: libraries whose distributions are reinstalled.
        additions: additional requirements to install.
        bypasses_cache: whether the installer's cache may be damaged too.
        cleared: distributions whose stale metadata is removed.
    """

    codes: tuple[str, ...]
    may_replace: bool = False
    with_libraries: bool = False
    reinstalled: tuple[str, ...] = ()
    sonames: tuple[str, ...] = ()
    additions: tuple[str, ...] = ()
    bypasses_cache: bool = False
    cleared: tuple[str, ...] = ()


def repair_plan(findings: Sequence[Finding], snapshot: Snapshot) -> RepairPlan | None:
    """The repair of these findings by a transaction; None if it can repair none.

    Notes are ignored. A finding without a safe fix (a Python that the system manages) needs a person.
    """
    repairable = []
    for finding in findings:
        check = find_check(finding.code)
        kind = check.repair if check else None
        if kind and finding.severity is not Severity.NOTE and _is_safe(finding, kind, snapshot):
            repairable.append((finding, kind))
    if not repairable:
        return None
    kinds, target = {kind for _, kind in repairable}, snapshot.target
    requirements = _requirements(finding for finding, kind in repairable if kind in _REINSTALLING)
    reinstalled = tuple(dict.fromkeys(map(canonical_name, requirements)))
    crashing = [entry.soname for entry in target.libraries if (entry.error or "").startswith("loading it")]
    stale = (entry.name for entry in stale_metadata(target) if is_clearable(entry, target))
    # uv links files from its cache: a changed file is changed in the cache too.
    changed = (entry for entry in target.file_faults if entry.state in (FileState.WRONG_SIZE, FileState.CHANGED))
    return RepairPlan(
        codes=tuple(dict.fromkeys(finding.code for finding, _ in repairable)),
        may_replace=not kinds.isdisjoint(_REPLACING),
        with_libraries=RepairKind.REPLACE_WITH_LIBRARIES in kinds,
        reinstalled=reinstalled,
        sonames=tuple(crashing) if RepairKind.REINSTALL_CRASHING in kinds else (),
        additions=tuple(_requirements(finding for finding, kind in repairable if kind is RepairKind.ADD)),
        bypasses_cache=bool(crashing) or any({*entry.distributions} & {*reinstalled} for entry in changed),
        cleared=tuple(dict.fromkeys(stale)) if RepairKind.CLEAR in kinds else (),
    )


def _requirements(findings: Iterable[Finding]) -> Iterator[str]:
    """Requirements that the fixes install with pip or uv."""
    for fix in (fix for finding in findings for fix in finding.fix if fix.safe):
        command = fix.command or ()
        yield from requirement_arguments(command[command.index("install") + 1 :]) if "install" in command else ()


def _is_safe(finding: Finding, kind: RepairKind, snapshot: Snapshot) -> bool:
    """Whether gpuenv may repair it inside the target; the choice between pip and conda is left to the user."""
    if finding.cause is Cause.MIXED_PIP_CONDA:
        return False
    removable = {entry.distribution for entry in snapshot.target.cupy if entry.is_own}
    if finding.cause is Cause.MULTIPLE_CUPY_PACKAGES and len(removable) < _SEVERAL:
        return False  # a transaction in the target removes nothing outside of it, such as the user site-packages
    if any(fix.safe for fix in finding.fix):
        return True
    return kind in _REPLACING and not snapshot.target.externally_managed.value


def repair_matrices(snapshot: Snapshot, matrix: Matrix, preferred: Resolution) -> Iterator[Matrix]:
    """The matrix narrowed to the installed release, then to its line, then in full, so that little changes.

    If several lines are installed, that of the ``preferred`` resolution comes first.
    """
    best = preferred.wheel.distribution if preferred.wheel else None
    installed = sorted(snapshot.target.cupy, key=lambda entry: entry.distribution != best)
    for entry in installed:
        for line in matrix.wheel_lines:
            releases = [release for release in line.releases if release.cupy == entry.release]
            if line.name == entry.distribution and releases:
                yield replace(matrix, wheel_lines=(line._replace(releases=tuple(releases)),))
    for entry in installed:
        lines = tuple(line for line in matrix.wheel_lines if line.name == entry.distribution)
        if lines:
            yield replace(matrix, wheel_lines=lines)
    yield matrix


def with_any_numpy(snapshot: Snapshot) -> Snapshot:
    """The snapshot without its NumPy, to resolve as if NumPy may change."""
    free: Reading[str] = missing("whichever CuPy requires")
    return snapshot._replace(target=snapshot.target._replace(numpy=free))


def satisfies(wheel: WheelChoice, repairs: RepairPlan, snapshot: Snapshot) -> bool:
    """Whether a wheel satisfies the repair: the CUDA libraries come with it or are present."""
    if wheel.extra is not None or repairs.with_libraries:
        return wheel.extra is not None
    # Any CuPy finds libraries outside of wheels, and those of the host's toolkits.
    target = snapshot.target
    by_all = _all_found(snapshot) and not any("/site-packages/" in (entry.path or "") for entry in target.libraries)
    complete = [kit for kit in snapshot.toolkits if kit.has_nvrtc and kit.has_headers and not kit.in_target]
    majors = {kit.toolkit.value.major for kit in complete if kit.toolkit.value}
    return wheel.cuda_major in majors or (by_all and wheel.cuda_major == first_cuda_major(target))


def loses_libraries(wheel: WheelChoice, repairs: RepairPlan, snapshot: Snapshot) -> bool:
    """Whether CuPy would no longer find its libraries: only CuPy 14 and newer find those of wheels."""
    return _all_found(snapshot) and not satisfies(wheel, repairs, snapshot)


def _all_found(snapshot: Snapshot) -> bool:
    needed = [entry for entry in snapshot.target.libraries if not entry.optional]
    return bool(needed) and all(entry.path for entry in needed)


def installed_requirement(snapshot: Snapshot) -> tuple[str, ...]:
    """The installed CuPy as a pinned requirement."""
    return tuple(f"{entry.distribution}=={entry.release}" for entry in snapshot.target.cupy[:1])
