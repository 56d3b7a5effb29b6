"""From a resolution and a target to a plan; nothing of the target is changed here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuenv.install.backends.base import lock_text
from gpuenv.install.dependencies import Package, faults
from gpuenv.install.environment import (
    Entry,
    Holdings,
    Installed,
    Scheme,
    as_package,
    has_digest,
    is_damaged,
    read_record,
)
from gpuenv.install.errors import InstallError, NothingFits, TargetUnusable
from gpuenv.install.installers import Caller, refuse_wheels
from gpuenv.install.paths import JOURNALS
from gpuenv.install.plan import Command, Leftover, Pin, Place, Plan, Reason, Removal, Space
from gpuenv.install.removal import (
    Aims,
    aims,
    files_of,
    frozen,
    kept_wants,
    kept_working,
    left_metadata,
    leftovers,
    owners,
)
from gpuenv.install.solver import (
    OF_ITS_OWN,
    Lock,
    Resolved,
    make_lock,
    nothing_fits,
    refuse_other,
    resolve_at_once,
    resolve_pins,
    with_digests,
)
from gpuenv.matrix.ranges import same_release
from gpuenv.model.cupy import is_cupy
from gpuenv.model.text import enumerated

_STAGING = ("put the new wheels together beside the environment", "the same with the index, if that does not do")
_NAMED = 3
# Unpacked, the wheels that cupy-cuda12x[ctk] 14.2.0 brings for x86_64 are 1.46 (nvidia-cublas-cu12 12.9.2.10) to 2.99
# times (cuda-pathfinder 1.9.0) as large as their files: zip's own sizes, read in November 2026.
_GROWTH = 3
NUMBER = "NUMBER"  # stands for the transaction's own in what a plan shows


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan and what it takes to carry it out.

    Attributes:
        plan: what is shown.
        holdings: what the target held when the plan was made.
        lock: the exact versions with digests, as the installer is given them.
        leaving: the places of the files that leave.
        caller: who runs the installer.
    """

    plan: Plan
    holdings: Holdings
    lock: str
    leaving: tuple[str, ...]
    caller: Caller


def refuse_unusable(scheme: Scheme, *, break_system_packages: bool) -> None:
    """Refuses a target into which nothing may or can be installed.

    Raises:
        TargetUnusable: when the system manages this Python, or it may not be written.
    """
    if scheme.externally_managed and not break_system_packages:
        raise TargetUnusable(
            f"{scheme.executable}: the system manages this Python and forbids installing into it (PEP 668)",
            "Make an environment of your own: python3 -m venv NAME, then gpuenv install --python NAME. "
            "--break-system-packages does it all the same.",
        )
    for folder in (scheme.root, scheme.purelib, scheme.platlib):
        nearest = Path(folder)
        while not nearest.exists():
            nearest = nearest.parent
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise TargetUnusable(
                f"{folder}: the environment cannot be written",
                "Install as a user who may write there, or into an environment of your own.",
            )
        if not (os.path.realpath(folder) + "/").startswith(os.path.realpath(scheme.root) + "/"):
            raise TargetUnusable(f"{folder} lies outside of {scheme.root}: such an environment is not supported")


def prepare(
    holdings: Holdings,
    caller: Caller,
    requirements: Sequence[str],
    locked: tuple[Pin, ...] | None = None,
    again: Sequence[str] = (),
    cleared: Sequence[str] = (),
) -> Prepared:
    """The plan to install these requirements.

    Args:
        holdings: what the target holds.
        caller: who runs the installer.
        requirements: the resolver's, pins included; those of a lock file where there is one.
        locked: exact versions with digests, from a lock file; None to ask the installer.
        again: distributions whose files are put in anew, whatever they look like.
        cleared: distributions of which metadata of other releases are there too, which leave.

    Raises:
        InstallError: when there can be no plan.
    """
    packages = [as_package(entry) for entry in holdings.visible]
    aim = aims(requirements, packages, holdings.scheme.markers, _damaged(holdings))
    _refuse_hidden_rivals(holdings, aim)
    _refuse_what_others_need(packages, aim, requirements, holdings.scheme.markers)
    own, root = holdings.own, holdings.scheme.root
    owned = owners(own.values(), root)
    going = {name: files_of(own[name], root) for name in aim.remove if name in own}
    _, overwritten = _leaving(going, owned, root)
    refresh = tuple(sorted({*aim.refresh, *overwritten, *again}))
    if locked is None:
        resolved = _resolve(caller, requirements, aim, packages, holdings)
    else:
        there = {entry.name: entry.release for entry in holdings.visible}
        coming = (
            pin for pin in locked if pin.name in refresh or not same_release(there.get(pin.name, ""), pin.release)
        )
        resolved = Resolved(tuple(coming), ())
    # What has to be put in once more although the installer is content with it.
    names = {pin.name for pin in resolved.pins}
    once_more = (Pin(name, own[name].release) for name in refresh if name not in names and name in own)
    resolved = with_digests(caller, Resolved((*resolved.pins, *once_more), resolved.commands))
    refuse_wheels(caller, (pin.name for pin in resolved.pins))
    install = tuple(replace(pin, former=own[pin.name].release if pin.name in own else None) for pin in resolved.pins)
    going.update(
        {pin.name: files_of(own[pin.name], root) for pin in install if pin.name in own and pin.name not in going}
    )
    leaving, _ = _leaving(going, owned, root)
    strays = leftovers(holdings.scheme, owned)
    strays = tuple(dict.fromkeys((*strays, *left_metadata(holdings.scheme, holdings.own, cleared))))
    files = {name: len(places) for name, places in going.items()}
    choice = Choice(tuple(requirements), aim, install, overwritten, strays, resolved.commands, files)
    plan = make_plan(holdings, caller, choice, free_space(holdings.scheme.root))
    return Prepared(plan, holdings, lock_text(install), (*leaving, *strays), caller)


def _damaged(holdings: Holdings) -> tuple[str, ...]:
    """The CuPys whose files are not all there as they were installed."""
    found = []
    for entry in holdings.own.values():
        record = read_record(entry.metadata) if is_cupy(entry.name) else None
        if record is not None and is_damaged(entry.folder, record) is not None:
            found.append(entry.name)
    return tuple(found)


def _refuse_hidden_rivals(holdings: Holdings, aim: Aims) -> None:
    """Refuses where another CuPy line is in a folder that imports meet first: it cannot be removed here."""
    ahead = list(holdings.scheme.path)
    order = {os.path.realpath(folder): index for index, folder in reversed(list(enumerate(ahead)))}
    own = order.get(os.path.realpath(holdings.scheme.purelib), len(ahead))
    for entry in holdings.visible:
        outside = entry.name in aim.remove and entry.name not in holdings.own and is_cupy(entry.name)
        if outside and order.get(os.path.realpath(entry.folder), own) < own:
            raise TargetUnusable(
                f"{entry.name} {entry.release} in {entry.folder} is outside of this environment and would be imported "
                "first",
                "Remove it there, or take its folder off PYTHONPATH.",
            )


def _refuse_what_others_need(
    packages: Sequence[Package], aim: Aims, requirements: Sequence[str], markers: Mapping[str, str]
) -> None:
    """Refuses to remove a CuPy line that a package requires by name, before anything is downloaded."""
    before = set(faults(packages, markers))
    after = faults([entry for entry in packages if entry.name not in aim.remove], markers)
    lost = [fault.want for fault in after if fault not in before and is_cupy(fault.want.name)]
    if lost:
        raise NothingFits(
            f"{' '.join(requirements)} takes the place of {', '.join(dict.fromkeys(want.name for want in lost))}, and "
            f"{', '.join(dict.fromkeys(f'{want.by} needs {want.text}' for want in lost))}",
            OF_ITS_OWN,
        )


def _leaving(
    going: Mapping[str, Sequence[str]], owned: Mapping[str, Sequence[tuple[Installed, Entry]]], root: str
) -> tuple[tuple[str, ...], frozenset[str]]:
    """The files that leave with some distributions, and those who stay whose files these have overwritten.

    A file that a distribution that stays owns too does not leave.
    """
    leaving: list[str] = []
    overwritten: set[str] = set()
    for place in dict.fromkeys(place for files in going.values() for place in files):
        staying = [(owner.name, entry) for owner, entry in owned.get(place, ()) if owner.name not in going]
        if not staying:
            leaving.append(place)
        for name, entry in staying:
            if entry.sha256 is not None and not has_digest(f"{root}/{place}", entry.sha256):
                overwritten.add(name)
    return tuple(leaving), frozenset(overwritten)


def _resolve(
    caller: Caller, requirements: Sequence[str], aim: Aims, packages: Sequence[Package], holdings: Holdings
) -> Resolved:
    """First so that nothing else moves; if that fails, so that everything else still has what it needs."""
    there = {entry.name: entry.release for entry in packages if entry.name not in aim.remove}
    resolved, why = resolve_at_once(caller, requirements, frozen(aim, packages, free_too=True), there), ""
    if resolved is None:
        resolved, why = resolve_pins(caller, requirements, frozen(aim, packages))
    if why:
        resolved, why = resolve_pins(caller, requirements, kept_working(aim, packages, holdings.scheme.markers))
    if why:
        raise _nothing_fits(why, requirements, aim, caller, packages, holdings)
    refuse_other(caller, requirements, there | {pin.name: pin.release for pin in resolved.pins})
    return resolved


def lock_for(holdings: Holdings, caller: Caller, requirements: Sequence[str]) -> Lock:
    """The lock of these requirements for a target, together with what the target holds.

    Raises:
        InstallError: when there can be none.
    """
    packages = [as_package(entry) for entry in holdings.visible]
    aim = aims(requirements, packages, holdings.scheme.markers)
    lock, why = make_lock(caller, requirements, frozen(aim, packages))
    if lock is None:
        lock, why = make_lock(caller, requirements, kept_working(aim, packages, holdings.scheme.markers))
    if lock is None:
        raise _nothing_fits(why, requirements, aim, caller, packages, holdings)
    refuse_wheels(caller, (pin.name for pin in lock.pins))
    return lock


def _nothing_fits(
    why: str, requirements: Sequence[str], aim: Aims, caller: Caller, packages: Sequence[Package], holdings: Holdings
) -> InstallError:
    """Why it cannot be: where an empty environment would not take it either, this one is not the reason."""
    try:
        beside = make_lock(caller, requirements, ())[0] is not None
    except InstallError:
        beside = True
    kept = kept_wants(aim, packages, holdings.scheme.markers)
    return nothing_fits(why, requirements, aim.stay, caller, kept, beside=beside)


def free_space(folder: str) -> int | None:
    """Bytes that this user may still fill on a folder's file system."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen.

    Attributes:
        requirements: the resolver's.
        aim: what leaves, and what may move.
        install: the wheels that come.
        overwritten: the distributions that stay and whose files another one has overwritten.
        strays: the files that no distribution owns.
        commands: those that were run to find this out.
        files: of each distribution that leaves, how many it has.
    """

    requirements: tuple[str, ...]
    aim: Aims
    install: tuple[Pin, ...]
    overwritten: frozenset[str]
    strays: tuple[str, ...]
    commands: tuple[Command, ...]
    files: Mapping[str, int]


def make_plan(holdings: Holdings, caller: Caller, choice: Choice, free: int | None) -> Plan:
    """The plan; ``free`` is the room on the target's disk in bytes."""
    scheme = holdings.scheme
    stage = Path(scheme.root, JOURNALS, NUMBER, "stage")
    staging = caller.installer.staging(caller.options, stage.parent / "lock.txt", stage)
    coming = tuple(map(Command, _STAGING, staging)) if choice.install else ()
    sizes = [pin.size for pin in choice.install if pin.size is not None]
    download = sum(sizes) if len(sizes) == len(choice.install) else None
    return Plan(
        target=Place(scheme.executable, scheme.root, scheme.purelib, scheme.kind),
        installer=caller.installer.label,
        requirements=choice.requirements,
        remove=_removals(holdings, choice),
        leftovers=tuple(Leftover(path) for path in choice.strays),
        install=tuple(sorted(choice.install, key=lambda pin: not is_cupy(pin.name))),
        moves=_moves(choice),
        commands=(*choice.commands, *coming),
        undo=Command("put the former state back", ("gpuenv", "rollback", "--python", scheme.prefix)),
        space=Space(download, free, download * _GROWTH if download is not None else None),
        notes=_notes(choice.aim, [as_package(entry) for entry in holdings.visible]),
    )


def _removals(holdings: Holdings, choice: Choice) -> tuple[Removal, ...]:
    reasons = {name: reason for name, reason in choice.aim.remove.items() if name in holdings.own}
    reasons.update({pin.name: _why(pin, choice.overwritten) for pin in choice.install if pin.former is not None})
    return tuple(
        Removal(name, holdings.own[name].release, reason, choice.files[name]) for name, reason in reasons.items()
    )


def _why(pin: Pin, overwritten: frozenset[str]) -> Reason:
    same = same_release(pin.former or "", pin.release)
    return Reason.SHARED_FILES if same and (pin.name in overwritten or is_cupy(pin.name)) else Reason.REPLACED


def _moves(choice: Choice) -> tuple[str, ...]:
    return tuple(
        pin.name
        for pin in choice.install
        if pin.former is not None
        and not same_release(pin.former, pin.release)
        and pin.name not in {*choice.aim.asked, *choice.aim.free}
    )


def _notes(aim: Aims, packages: Sequence[Package]) -> tuple[str, ...]:
    there = {entry.name: entry.release for entry in packages}
    return tuple(
        f"{name} {there[name]} is of another CUDA major version and stays, since other packages need it; "
        "CuPy may load it first"
        for name in aim.stay
    )


def summary_of(plan: Plan) -> str:
    """What a plan does, in words."""
    installed = enumerated([f"{pin.name} {pin.release}" for pin in plan.install], _NAMED)
    gone = [entry.name for entry in plan.remove if entry.name not in {pin.name for pin in plan.install}]
    parts = [f"installed {installed}" if installed else "", f"removed {', '.join(gone)}" if gone else ""]
    parts += [f"removed {len(plan.leftovers)} leftover files"] if plan.leftovers else []
    return "; ".join(part for part in parts if part) or "nothing to do"


def numbered(plan: Plan, number: str) -> Plan:
    """The plan with the transaction's own number in its commands."""

    def told(command: Command) -> Command:
        return replace(command, argv=tuple(word.replace(f"/{NUMBER}/", f"/{number}/") for word in command.argv))

    undo = replace(plan.undo, argv=(*plan.undo.argv, number))
    return replace(plan, commands=tuple(map(told, plan.commands)), undo=undo)
