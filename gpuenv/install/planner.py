"""Makes the plan of an install: solves the first offer that can be installed into the target. Changes nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

from gpuenv.install.backends.base import InstallerSetting
from gpuenv.install.backends.uv import Uv
from gpuenv.install.change_scope import ChangeScope, change_scope, frozen, kept_dependencies, kept_working
from gpuenv.install.environment import (
    Inventory,
    Scheme,
    first_damaged_file,
    read_record,
)
from gpuenv.install.exceptions import InstallError, InstallFailed, NothingFits, TargetUnusable
from gpuenv.install.installer_config import InstallerRun, constraining_variables, refuse_wheels, settings_text
from gpuenv.install.journal import Store
from gpuenv.install.lockfile import lock_text
from gpuenv.install.owned_files import (
    files_of,
    files_to_remove,
    left_metadata,
    leftover_files,
    owners,
    uninstall_remedy,
)
from gpuenv.install.plan import Leftover, Pin, Plan, PlannedCommand, Reason, Removal, Space, TargetEnvironment
from gpuenv.install.solver import (
    SEPARATE_ENVIRONMENT,
    Lock,
    SolverResult,
    make_lock,
    nothing_fits,
    refuse_other,
    resolve_at_once,
    resolve_pins,
    with_digests,
)
from gpuenv.matrix.offers import Offer
from gpuenv.matrix.ranges import same_release
from gpuenv.model.cupy import is_cupy
from gpuenv.model.dependencies import Package, required_name, unmet_requirements
from gpuenv.model.strings import join_words

_STAGING = ("install the new wheels next to the environment", "the same with the index, if that fails")
_MAX_NAMES = 3
# Unpacked, the wheels of cupy-cuda12x[ctk] 14.2.0 for x86_64 are 1.46 (nvidia-cublas-cu12 12.9.2.10) to 2.99
# times (cuda-pathfinder 1.9.0) as large as their files: zip's own sizes, read in November 2026.
_GROWTH = 3
NUMBER = "NUMBER"  # placeholder for the number of the transaction in a plan


class ScopedOffer(NamedTuple):
    """An offer, and the scope of the change for it."""

    offer: Offer
    scope: ChangeScope


T = TypeVar("T", SolverResult, Lock)
Attempt: TypeAlias = Callable[[ScopedOffer], tuple[T | None, str]]


@dataclass(frozen=True, slots=True)
class PreparedInstall:
    """A plan and the data to execute it."""

    plan: Plan
    inventory: Inventory  # at the time of the plan
    lock: str  # exact versions with digests, the input of the installer
    leaving: tuple[str, ...]  # paths of the files to remove, relative to the root
    installer_run: InstallerRun
    from_lock_file: bool = False


def refuse_unusable(scheme: Scheme, *, break_system_packages: bool) -> None:
    """Refuses a target that must not or cannot be changed.

    Raises:
        TargetUnusable: when it is externally managed, or not writable.
    """
    if scheme.externally_managed and not break_system_packages:
        raise TargetUnusable(
            f"{scheme.executable}: the system manages this Python and forbids installing into it (PEP 668)",
            "Create an environment: python3 -m venv NAME, then gpuenv install --python NAME. "
            "--break-system-packages overrides this.",
        )
    for folder in (scheme.root, scheme.purelib, scheme.platlib):
        nearest = Path(folder)
        while not nearest.exists():
            nearest = nearest.parent
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise TargetUnusable(
                f"{folder}: the environment is not writable",
                "Install as a user with write access, or into an environment of your own.",
            )
        if not (os.path.realpath(folder) + "/").startswith(os.path.realpath(scheme.root) + "/"):
            raise TargetUnusable(f"{folder} lies outside of {scheme.root}: such an environment is not supported")


def prepare(
    inventory: Inventory,
    installer_run: InstallerRun,
    offers: Sequence[Offer],
    locked: tuple[Pin, ...] | None = None,
    again: Sequence[str] = (),
    cleared: Sequence[str] = (),
) -> PreparedInstall:
    """The plan to install the first of these offers that the installer's solver can install.

    Args:
        inventory: the installed distributions.
        installer_run: the run of the installer.
        offers: those of the resolver in order of preference, or the content of a lock file.
        locked: exact versions with digests, from a lock file; None to run the installer's resolver.
        again: distributions to reinstall in any case.
        cleared: distributions whose leftover metadata of other releases is removed.

    Raises:
        InstallError: when there can be no plan.
    """
    scheme, own, root = inventory.scheme, inventory.own, inventory.scheme.root
    _refuse_cupy_ahead(inventory)
    _refuse_line_outside(inventory, offers[0].requirements)
    damaged = _damaged(inventory)
    constraints = constraining_variables(installer_run) if locked is None else ()
    if locked is None:
        offer, scope, resolved = _solve(installer_run, offers, inventory, damaged)
    else:
        offer = offers[0]
        scope = _scope_of(offer, inventory, damaged)
        resolved = SolverResult(locked, ())
    requirements, needs_toolkit = _solved_requirements(offer, inventory, resolved)
    owned = owners(own.values(), root)
    going = {name: files_of(own[name], root) for name in scope.remove if name in own}
    _, overwritten = files_to_remove(going, owned, root)
    refresh = sorted({*scope.refresh, *overwritten, *again})
    if locked is not None:
        there = inventory.releases
        coming = (
            pin for pin in locked if pin.name in refresh or not same_release(there.get(pin.name, ""), pin.release)
        )
        resolved = SolverResult(tuple(coming), ())
    # Reinstall these although the installer considers them up to date.
    names = {pin.name for pin in resolved.pins}
    once_more = (Pin(name, own[name].release) for name in refresh if name not in names and name in own)
    resolved = with_digests(installer_run, SolverResult((*resolved.pins, *once_more), resolved.commands))
    refuse_wheels(installer_run, (pin.name for pin in resolved.pins))
    install = tuple(replace(pin, former=own[pin.name].release if pin.name in own else None) for pin in resolved.pins)
    replaced = [pin for pin in install if pin.former is not None]
    going.update({pin.name: files_of(own[pin.name], root) for pin in replaced if pin.name not in going})
    leaving, _ = files_to_remove(going, owned, root)
    strays = tuple(dict.fromkeys((*leftover_files(scheme, owned), *left_metadata(scheme, own, cleared))))

    reasons = {name: reason for name, reason in scope.remove.items() if name in own}
    # A package of the system is not replaced, but the new one hides it.
    former = {**inventory.releases, **{entry.name: entry.release for entry in own.values()}}
    changed = [pin for pin in install if pin.name in former and not same_release(former[pin.name], pin.release)]
    for pin in replaced:
        shared = pin not in changed and (pin.name in overwritten or is_cupy(pin.name))
        reasons[pin.name] = Reason.SHARED_FILES if shared else Reason.REPLACED
    stage = Store(Path(root)).stage(NUMBER)
    staging = installer_run.installer.stage_commands(installer_run.options, stage.parent / "lock.txt", stage)
    sizes = [pin.size for pin in install if pin.size is not None]
    total = sum(sizes) if len(sizes) == len(install) else None
    download = total if installer_run.options.find_links is None else 0
    plan = Plan(
        target=TargetEnvironment(scheme.executable, root, scheme.purelib, scheme.kind),
        installer=installer_run.installer.label,
        requirements=requirements,
        needs_toolkit=needs_toolkit,
        remove=tuple(Removal(name, own[name].release, reason, len(going[name])) for name, reason in reasons.items()),
        leftovers=tuple(map(Leftover, strays)),
        install=tuple(sorted(install, key=lambda pin: not is_cupy(pin.name))),
        moves=tuple(pin.name for pin in changed if pin.name not in scope.named | scope.free),
        commands=(*resolved.commands, *(map(PlannedCommand, _STAGING, staging) if install else ())),
        undo=undo_command(scheme),
        space=Space(download, free_space(root), total * _GROWTH if total is not None else None),
        notes=tuple(_notes(scope, inventory, installer_run, constraints)),
    )
    from_lock_file = locked is not None and installer_run.options.find_links is None
    return PreparedInstall(plan, inventory, lock_text(install), (*leaving, *strays), installer_run, from_lock_file)


def _notes(
    scope: ChangeScope, inventory: Inventory, installer_run: InstallerRun, constraints: Sequence[InstallerSetting]
) -> Iterator[str]:
    installer = installer_run.installer
    if constraints:
        yield f"constrained by {settings_text(constraints)}"
    if isinstance(installer, Uv) and installer.pip_settings.settings:
        settings = (f"{entry.key} ({entry.origin})" for entry in installer.pip_settings.settings)
        yield f"uv uses settings of pip: {', '.join(settings)}"
    for name in scope.stay:
        kept = f"{name} {inventory.releases[name]} is of another CUDA major version and is kept"
        yield f"{kept}, since other packages need it; CuPy may load it first"


def undo_command(scheme: Scheme) -> PlannedCommand:
    """The command that undoes an install; ``numbered`` adds the number."""
    return PlannedCommand("restore the former state", ("gpuenv", "rollback", "--python", scheme.prefix))


def _damaged(inventory: Inventory) -> tuple[str, ...]:
    """The CuPy distributions with missing or changed files."""
    records = ((entry, read_record(entry.metadata)) for entry in inventory.own.values() if is_cupy(entry.name))
    return tuple(
        entry.name for entry, record in records if record and first_damaged_file(entry.folder, record) is not None
    )


def _refuse_cupy_ahead(inventory: Inventory) -> None:
    """Refuses if a CuPy is in a folder that comes first in ``sys.path``: it cannot be removed here."""
    own = inventory.scheme.own_folders
    ahead = set(takewhile(lambda folder: folder not in own, map(os.path.realpath, inventory.scheme.path)))
    for entry in inventory.visible:
        if is_cupy(entry.name) and os.path.realpath(entry.folder) in ahead:
            raise TargetUnusable(
                f"{entry.name} {entry.release} in {entry.folder} is outside of this environment and would be imported "
                "first",
                "Remove it there, or take its folder off PYTHONPATH.",
            )


def _refuse_line_outside(inventory: Inventory, requirements: Sequence[str]) -> None:
    """Refuses if the only CuPy is of another line than required, and outside of the environment: it would remain."""
    wanted = {name for name in map(required_name, requirements) if name and is_cupy(name)}
    installed = [entry for entry in inventory.visible if is_cupy(entry.name)]
    if not wanted or len(installed) != 1 or installed[0].name in {*wanted, *inventory.own}:
        return
    (entry,) = installed
    scheme = inventory.scheme
    remedy = (
        "Remove it there, or install into an environment without the system's packages: python3 -m venv NAME, then "
        "gpuenv install --python NAME."
    )
    # Left by setup.py develop: the environment has only a link to the project.
    if any(Path(folder, f"{entry.name}.egg-link").is_file() for folder in scheme.own_folders):
        remedy = f"{uninstall_remedy(entry.name, scheme.root)}, which keeps that folder."
    raise TargetUnusable(
        f"{entry.name} {entry.release} in {entry.folder} is outside of this environment, so {', '.join(wanted)} cannot "
        "replace it, and one environment cannot use two CuPy lines",
        remedy,
    )


def _refuse_what_others_need(inventory: Inventory, scope: ChangeScope, requirements: Sequence[str]) -> None:
    """Refuses to remove a CuPy line that a package requires by name, before any download."""
    markers = inventory.scheme.markers
    before = set(unmet_requirements(inventory.visible, markers))
    after = unmet_requirements([entry for entry in inventory.visible if entry.name not in scope.remove], markers)
    lost = [fault.dependency for fault in after if fault not in before and is_cupy(fault.dependency.name)]
    if lost:
        raise NothingFits(
            f"{' '.join(requirements)} takes the place of {', '.join(dict.fromkeys(want.name for want in lost))}, and "
            f"{', '.join(dict.fromkeys(f'{want.by} needs {want.text}' for want in lost))}",
            SEPARATE_ENVIRONMENT,
        )


def _scope_of(offer: Offer, inventory: Inventory, damaged: Sequence[str]) -> ChangeScope:
    """The scope of the change for an offer.

    Raises:
        NothingFits: when it would remove what other packages need.
    """
    scope = change_scope(offer.requirements, inventory.visible, inventory.scheme.markers, damaged)
    _refuse_what_others_need(inventory, scope, offer.requirements)
    return scope


def _solve(
    installer_run: InstallerRun, offers: Sequence[Offer], inventory: Inventory, damaged: Sequence[str]
) -> tuple[Offer, ChangeScope, SolverResult]:
    """Solves the first offer that can be: first with all other packages pinned, then with their needs met.

    Raises:
        NothingFits: when none can be; with the reason against the first.
    """
    scoped: list[ScopedOffer] = []
    refused: list[NothingFits] = []
    for offer in offers:
        try:
            scoped.append(ScopedOffer(offer, _scope_of(offer, inventory, damaged)))
        except NothingFits as error:  # a package needs another line of CuPy
            refused.append(error)
    if not scoped:
        raise refused[0]

    def solve_kept_working(entry: ScopedOffer) -> tuple[SolverResult | None, str]:
        return resolve_pins(installer_run, entry.offer.requirements, kept_working(entry.scope, inventory))

    attempts = (partial(_solve_frozen, installer_run, inventory), solve_kept_working)
    chosen, result, why = solve_first(installer_run, scoped, attempts, inventory.visible)
    if result is None:
        raise _nothing_fits(why, chosen, installer_run, inventory)
    return chosen.offer, chosen.scope, result


def solve_first(
    installer_run: InstallerRun,
    offers: Sequence[ScopedOffer],
    attempts: Sequence[Attempt[T]],
    packages: Sequence[Package],
) -> tuple[ScopedOffer, T | None, str]:
    """Solves the first offer that can be, by one attempt after the other; else returns the conflict of the first offer.

    The strictest attempt comes first; each returns a result, or None and the conflict.

    Raises:
        InstallFailed: when the installer fails for another reason than a conflict.
    """
    reasons: list[str] = []
    for attempt in attempts:
        for scoped in offers:
            try:
                result, why = _solve_offer(installer_run, scoped, attempt, packages)
            except InstallFailed:
                if not reasons:
                    raise
                why = ""  # the index may lack an old line; the conflict of the first offer is the reason
            else:
                if result is not None:
                    return scoped, result, ""
            reasons.append(why)
    return offers[0], None, reasons[-len(offers)] or reasons[0]


def _solve_offer(
    installer_run: InstallerRun, scoped: ScopedOffer, attempt: Attempt[T], packages: Sequence[Package]
) -> tuple[T | None, str]:
    """Solves an offer, and again without each release of CuPy that the solver chooses and the offer does not have."""
    kept = {entry.name: entry.release for entry in packages if entry.name not in scoped.scope.remove}
    while True:
        result, why = attempt(scoped)
        if result is None:
            return None, why
        releases = kept | {pin.name: pin.release for pin in result.pins}
        refuse_other(installer_run, scoped.offer.requirements, releases)
        unknown = _unknown_release(scoped.offer, releases)
        if unknown is None:
            return result, ""
        scoped = scoped._replace(offer=scoped.offer.without(unknown))


def _solve_frozen(
    installer_run: InstallerRun, inventory: Inventory, scoped: ScopedOffer
) -> tuple[SolverResult | None, str]:
    """Solves with all other packages pinned."""
    (offer, scope), packages, markers = scoped, inventory.visible, inventory.scheme.markers
    there = {entry.name: entry.release for entry in packages if entry.name not in scope.remove}
    pins = frozen(scope, packages, markers, pin_free=True)
    resolved = resolve_at_once(installer_run, offer.requirements, pins, there)
    if resolved is not None:
        return resolved, ""
    return resolve_pins(installer_run, offer.requirements, frozen(scope, packages, markers))


def _unknown_release(offer: Offer, releases: Mapping[str, str]) -> str | None:
    """The release of CuPy that was solved, if it is not one of those offered."""
    if not offer.choices:
        return None
    release = releases[offer.choices[0].distribution]
    return release if offer.choice(release) is None else None


def _solved_requirements(
    offer: Offer, inventory: Inventory, resolved: SolverResult
) -> tuple[tuple[str, ...], str | None]:
    """The exact requirements of what was solved, and what must come from elsewhere."""
    releases = inventory.releases | {pin.name: pin.release for pin in resolved.pins}
    choice = offer.choice(releases[offer.choices[0].distribution]) if offer.choices else None
    return (choice.requirements, choice.needs_toolkit) if choice else (offer.requirements, None)


def lock_for(inventory: Inventory, installer_run: InstallerRun, offers: Sequence[Offer]) -> Lock:
    """Locks the first of these offers that fits a target with its installed packages.

    Raises:
        InstallError: when it fails.
    """
    packages, markers = inventory.visible, inventory.scheme.markers
    scoped = [ScopedOffer(offer, change_scope(offer.requirements, packages, markers)) for offer in offers]

    def pinned(entry: ScopedOffer) -> tuple[Lock | None, str]:
        return make_lock(installer_run, entry.offer.requirements, frozen(entry.scope, packages, markers))

    def unpinned(entry: ScopedOffer) -> tuple[Lock | None, str]:
        return make_lock(installer_run, entry.offer.requirements, kept_working(entry.scope, inventory))

    chosen, lock, why = solve_first(installer_run, scoped, (pinned, unpinned), packages)
    if lock is None:
        raise _nothing_fits(why, chosen, installer_run, inventory)
    refuse_wheels(installer_run, (pin.name for pin in lock.pins))
    return lock


def _nothing_fits(why: str, scoped: ScopedOffer, installer_run: InstallerRun, inventory: Inventory) -> InstallError:
    """The error of a failed resolution; tries an empty environment to see whether this one is the reason."""
    requirements, scope = scoped.offer.requirements, scoped.scope
    try:
        fits_empty = make_lock(installer_run, requirements, ())[0] is not None
    except InstallError:
        fits_empty = True
    return nothing_fits(
        why,
        requirements,
        scope.stay,
        installer_run,
        kept_dependencies(scope, inventory),
        without_them=SEPARATE_ENVIRONMENT if fits_empty else None,
    )


def free_space(folder: str) -> int | None:
    """Free bytes for this user on the file system of a folder."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def summary_of(plan: Plan) -> str:
    """One line about what a plan does."""
    installed = join_words([f"{pin.name} {pin.release}" for pin in plan.install], _MAX_NAMES)
    gone = [entry.name for entry in plan.remove if entry.name not in {pin.name for pin in plan.install}]
    parts = [f"installed {installed}" if installed else "", f"removed {', '.join(gone)}" if gone else ""]
    parts += [f"removed {len(plan.leftovers)} leftover files"] if plan.leftovers else []
    return "; ".join(part for part in parts if part) or "nothing to do"


def numbered(plan: Plan, number: str) -> Plan:
    """The plan with the number of the transaction in its commands."""
    commands = (
        replace(command, argv=tuple(argument.replace(f"/{NUMBER}/", f"/{number}/") for argument in command.argv))
        for command in plan.commands
    )
    return replace(plan, commands=tuple(commands), undo=replace(plan.undo, argv=(*plan.undo.argv, number)))
