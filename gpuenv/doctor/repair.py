"""What repairs findings inside the target: ``doctor --fix`` and the printed commands install the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gpuenv.doctor.checks import find_check
from gpuenv.doctor.fixes.packages import canonical_name, exclude_numpy_fixes, requirement_arguments
from gpuenv.doctor.installed_cupy import (
    has_cuda_wheels,
    installed_cuda_major,
    is_clearable,
    is_managed_by_conda,
    stale_metadata,
)
from gpuenv.doctor.registry import Component, RepairKind
from gpuenv.matrix.offers import Offer, offers
from gpuenv.matrix.resolve import resolve
from gpuenv.matrix.tables import Matrix
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Finding, Fix, Severity
from gpuenv.model.reading import Reading, missing
from gpuenv.model.resolution import Resolution, WheelChoice
from gpuenv.model.snapshot import FileState, Snapshot

_REPLACING = (RepairKind.REPLACE, RepairKind.REPLACE_WITH_LIBRARIES)
_REINSTALLING = (RepairKind.REINSTALL, RepairKind.REINSTALL_CRASHING)
_SEVERAL = 2
BY_HAND = "Or by hand: "
_INSTALL = Fix("Install CuPy; gpuenv verifies the result, and undoes a failure.", ("gpuenv", "install"), safe=True)
_REPAIR = Fix(
    "Repair the environment; gpuenv verifies the result, and undoes a failure.",
    ("gpuenv", "doctor", "--fix"),
    safe=True,
)


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
    # Libraries that crash, and that no wheel of the target provides, are replaced by those of wheels.
    without_wheels = RepairKind.REINSTALL_CRASHING in kinds and not has_cuda_wheels(target)
    stale = (entry.name for entry in stale_metadata(target) if is_clearable(entry, target))
    # uv links files from its cache: a changed file is changed in the cache too.
    changed = (entry for entry in target.file_faults if entry.state in (FileState.WRONG_SIZE, FileState.CHANGED))
    return RepairPlan(
        codes=tuple(dict.fromkeys(finding.code for finding, _ in repairable)),
        may_replace=without_wheels or not kinds.isdisjoint(_REPLACING),
        with_libraries=without_wheels or RepairKind.REPLACE_WITH_LIBRARIES in kinds,
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
    if finding.cause in (Cause.MIXED_PIP_CONDA, Cause.LIBSTDCXX_MISMATCH):
        return False  # another CuPy would load the same C++ runtime
    if finding.cause is Cause.NUMPY_INCOMPATIBLE and exclude_numpy_fixes(snapshot):
        return False  # a NumPy outside of the target would still be imported first
    removable = {entry.distribution for entry in snapshot.target.cupy if entry.is_own}
    if finding.cause is Cause.MULTIPLE_CUPY_PACKAGES and len(removable) < _SEVERAL:
        return False  # a transaction in the target removes nothing outside of it, such as the user site-packages
    if any(fix.safe for fix in finding.fix):
        return True
    return kind in _REPLACING and not snapshot.target.externally_managed.value


_Option = tuple[Offer, Snapshot, Matrix]
"""An offer that repairs the target, with the facts and the rows that it was made for."""


def repair_offers(snapshot: Snapshot, matrix: Matrix, resolution: Resolution, repairs: RepairPlan) -> tuple[Offer, ...]:
    """The offers that repair the target, in order of preference.

    The installed NumPy is kept if possible. NumPy is no requirement: CuPy's metadata changes it as far as other
    packages allow.
    """
    return tuple(dict.fromkeys(offer for offer, _, _ in _options(snapshot, matrix, resolution, repairs)))


def repaired_resolution(
    findings: Sequence[Finding], snapshot: Snapshot, matrix: Matrix, resolution: Resolution
) -> Resolution:
    """The resolution with the wheel that repairs these findings, if it is another one.

    A repair changes as little as possible, and completes what is missing; a new installation may do otherwise.
    """
    repairs = repair_plan(findings, snapshot)
    if repairs is None or not repairs.may_replace or is_managed_by_conda(snapshot.target):
        return resolution
    best = next(_options(snapshot, matrix, resolution, repairs), None)
    if best is None or best[0].choices[0] == resolution.wheel:
        return resolution
    offer, facts, rows = best
    wheel = offer.choices[0]
    lines = (
        line._replace(releases=tuple(release for release in line.releases if release.cupy == wheel.version))
        for line in rows.wheel_lines
        if line.name == wheel.distribution
    )
    repaired = resolve(facts, replace(rows, wheel_lines=tuple(lines)), wheels_only=True)
    return resolution._replace(
        wheel=wheel, assumptions=repaired.assumptions, explanation=repaired.explanation, next_better=None
    )


def is_repair_command(command: Sequence[str] | None) -> bool:
    """Whether this is the command of gpuenv that repairs the target."""
    program, *arguments = command or [""]
    return program == "gpuenv" and (arguments[:1] == ["install"] or "--fix" in arguments)


def with_repair(fixes: tuple[Fix, ...], command: Fix) -> tuple[Fix, ...]:
    """Puts the command of gpuenv before the fixes, whose first step becomes an alternative to it."""
    place = next((number for number, fix in enumerate(fixes) if not fix.text.startswith("If ")), len(fixes))
    alternative = (
        fix._replace(text=f"{BY_HAND}{fix.text[0].lower()}{fix.text[1:]}") for fix in fixes[place : place + 1]
    )
    return (command, *fixes[:place], *alternative, *fixes[place + 1 :])


def repair_command(
    findings: Sequence[Finding], snapshot: Snapshot, matrix: Matrix, resolution: Resolution
) -> tuple[Fix | None, tuple[str, ...]]:
    """The command of gpuenv that repairs findings, and their codes; None if it can repair none."""
    repairs = repair_plan(findings, snapshot)
    if repairs is None or snapshot.target.made_by.value == "pixi":
        return None, ()
    if is_managed_by_conda(snapshot.target):
        possible = repairs.may_replace and conda_repair(snapshot, matrix, resolution) is not None
    elif repairs.may_replace:
        offered = repair_offers(snapshot, matrix, resolution, repairs)
        possible = bool(offered) and not _would_join_another_line(offered[0].choices[0], snapshot)
    else:
        possible = bool(snapshot.target.cupy)
    checks = [find_check(code) for code in repairs.codes]
    is_missing = any(check is not None and check.missing is Component.CUPY for check in checks)
    return (_INSTALL if is_missing else _REPAIR, repairs.codes) if possible else (None, ())


def _would_join_another_line(wheel: WheelChoice, snapshot: Snapshot) -> bool:
    """Whether the only CuPy is outside of the environment and of another line: it would remain, so install refuses."""
    installed = snapshot.target.cupy
    return len(installed) == 1 and not installed[0].is_own and installed[0].distribution != wheel.distribution


def conda_repair(snapshot: Snapshot, matrix: Matrix, resolution: Resolution) -> Resolution | None:
    """The resolution with a build that conda can install, with another NumPy if none fits the installed one."""
    if resolution.conda is not None:
        return resolution
    changed = resolve(with_any_numpy(snapshot), matrix)
    return changed if changed.conda is not None else None


def _options(snapshot: Snapshot, matrix: Matrix, resolution: Resolution, repairs: RepairPlan) -> Iterator[_Option]:
    """Offers that satisfy the repair, those with the installed NumPy first; without one, the resolver's own choice."""
    # A host toolkit that CuPy does not find now does not count.
    counted = snapshot._replace(toolkits=()) if repairs.with_libraries else snapshot
    is_satisfied = False
    for candidate in (counted, with_any_numpy(counted)):
        choice: _Option | None = None
        for narrowed in repair_matrices(snapshot, matrix, resolution):  # the full matrix comes last
            choice = None
            for offer in offers(candidate, narrowed):
                option = (offer, candidate, narrowed)
                choice = choice or option
                if satisfies(offer.choices[0], repairs, snapshot):
                    is_satisfied = True
                    yield option
        if choice is None or is_satisfied or repairs.with_libraries or candidate is not counted:
            continue
        if not loses_libraries(choice[0].choices[0], repairs, snapshot):  # the user adds the libraries
            yield choice
            return


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
    return wheel.cuda_major in majors or (by_all and wheel.cuda_major == installed_cuda_major(target))


def loses_libraries(wheel: WheelChoice, repairs: RepairPlan, snapshot: Snapshot) -> bool:
    """Whether CuPy would no longer find its libraries: only CuPy 14 and newer find those of wheels."""
    return _all_found(snapshot) and not satisfies(wheel, repairs, snapshot)


def _all_found(snapshot: Snapshot) -> bool:
    needed = [entry for entry in snapshot.target.libraries if not entry.optional]
    return bool(needed) and all(entry.path for entry in needed)


def installed_requirement(snapshot: Snapshot) -> tuple[str, ...]:
    """The installed CuPy as a pinned requirement."""
    return tuple(f"{entry.distribution}=={entry.release}" for entry in snapshot.target.cupy[:1])
