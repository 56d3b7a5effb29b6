"""From a resolution and a target to a plan: what leaves, what stays, and what comes. Nothing is changed here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from packaging.utils import canonicalize_name

from gpuenv.install.dependencies import Package, Want, faults, needed, required_name, wants
from gpuenv.install.environment import (
    Entry,
    Holdings,
    Installed,
    Scheme,
    below,
    has_digest,
    is_damaged,
    is_inside,
    read_record,
)
from gpuenv.install.errors import InstallError, NothingFits, TargetUnusable
from gpuenv.install.installers import Caller, refuse_wheels
from gpuenv.install.journal import Store
from gpuenv.install.lockfile import lock_text
from gpuenv.install.plan import Command, Leftover, Pin, Place, Plan, Reason, Removal, Space
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
from gpuenv.model.cupy import cuda_major, is_cupy
from gpuenv.model.nvidia import cuda_major_of_wheel
from gpuenv.model.strings import join_words

_MODULES = ("cupy", "cupyx", "cupy_backends")  # the folders that every CuPy line installs
_METADATA = ".dist-info"
_HALF_REMOVED = "~"  # pip renames what it removes to a name that begins so, and leaves it when it is interrupted
_STAGING = ("put the new wheels together beside the environment", "the same with the index, if that does not do")
_NAMED = 3
# Unpacked, the wheels that cupy-cuda12x[ctk] 14.2.0 brings for x86_64 are 1.46 (nvidia-cublas-cu12 12.9.2.10) to 2.99
# times (cuda-pathfinder 1.9.0) as large as their files: zip's own sizes, read in November 2026.
_GROWTH = 3
NUMBER = "NUMBER"  # stands for the transaction's own in what a plan shows


class Aims(NamedTuple):
    """What leaves and what stays, before any resolver runs."""

    remove: Mapping[str, Reason]
    refresh: tuple[str, ...]  # is put in again although it is there in the right version
    named: frozenset[str]  # in the requirements
    free: frozenset[str]  # may move without consent: CuPy's own CUDA wheels, which nothing else needs
    stay: tuple[str, ...]  # CUDA wheels of another major that something else needs


def aims(
    requirements: Sequence[str], packages: Sequence[Package], markers: Mapping[str, str], damaged: Sequence[str] = ()
) -> Aims:
    """What leaves and what stays for these requirements, CuPy's line among them.

    ``damaged`` are the packages whose files are not as they were installed.
    """
    named = frozenset(name for name in map(required_name, requirements) if name)
    cupy = next((name for name in named if is_cupy(name)), None)
    rivals = [entry.name for entry in packages if is_cupy(entry.name) and entry.name != cupy] if cupy else []
    rest = [entry for entry in packages if entry.name not in rivals and entry.name != cupy]
    cuda = {entry.name: cuda_major_of_wheel(entry.name, entry.release) for entry in rest}
    wheels = [name for name, major in cuda.items() if major is not None]
    wanted = needed(wheels, rest, markers)
    major = cuda_major(cupy) if cupy else None
    others = [name for name in wheels if cuda[name] != major and major is not None and name not in named]
    remove = dict.fromkeys(rivals, Reason.OTHER_LINE)
    remove.update({name: Reason.STRAY_CUDA for name in others if name not in wanted})
    is_there = cupy in {entry.name for entry in packages}
    return Aims(
        remove=remove,
        refresh=(cupy,) if cupy and is_there and (rivals or cupy in damaged) else (),
        named=named,
        free=frozenset(name for name in wheels if name not in wanted),
        stay=tuple(name for name in others if name in wanted),
    )


def unneeded(packages: Sequence[Package], markers: Mapping[str, str]) -> frozenset[str]:
    """The CUDA wheels that only a CuPy needs: they may go, and do not limit the choice of a line."""
    rest = [entry for entry in packages if not is_cupy(entry.name)]
    wheels = [entry.name for entry in rest if cuda_major_of_wheel(entry.name, entry.release) is not None]
    return frozenset(wheels) - needed(wheels, rest, markers)


def frozen(aim: Aims, packages: Sequence[Package], *, free_too: bool = False) -> tuple[str, ...]:
    """Constraints that let only free packages move, the first to try; with ``free_too`` not even those."""
    moving = {*aim.remove, *aim.named, *(() if free_too else aim.free)}
    return tuple(f"{entry.name}=={entry.release}" for entry in packages if entry.name not in moving)


def _kept_wants(aim: Aims, holdings: Holdings) -> tuple[Want, ...]:
    """What everything that stays needs in certain versions."""
    rest = [entry for entry in holdings.visible if entry.name not in aim.remove and not is_cupy(entry.name)]
    moving = {*aim.free, *aim.named}
    return tuple(want for want in wants(rest, holdings.scheme.markers) if want.specifier and want.by not in moving)


def _kept_working(aim: Aims, holdings: Holdings) -> tuple[str, ...]:
    """Constraints under which everything that stays has what it needs, the second to try."""
    return tuple(sorted({f"{want.name}{want.specifier}" for want in _kept_wants(aim, holdings)}))


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan and what it takes to carry it out."""

    plan: Plan
    holdings: Holdings  # when the plan was made
    lock: str  # the exact versions with digests, as the installer is given them
    leaving: tuple[str, ...]  # the places of the files that leave
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
    scheme, own, root = holdings.scheme, holdings.own, holdings.scheme.root
    aim = aims(requirements, holdings.visible, scheme.markers, _damaged(holdings))
    _refuse_hidden_rivals(holdings, aim)
    _refuse_what_others_need(holdings, aim, requirements)
    owned = owners(own.values(), root)
    going = {name: files_of(own[name], root) for name in aim.remove if name in own}
    _, overwritten = _leaving(going, owned, root)
    refresh = sorted({*aim.refresh, *overwritten, *again})
    if locked is None:
        resolved = _resolve(caller, requirements, aim, holdings)
    else:
        there = holdings.releases
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
    replaced = [pin for pin in install if pin.former is not None]
    going.update({pin.name: files_of(own[pin.name], root) for pin in replaced if pin.name not in going})
    leaving, _ = _leaving(going, owned, root)
    strays = tuple(dict.fromkeys((*_leftovers(scheme, owned), *left_metadata(scheme, own, cleared))))

    reasons = {name: reason for name, reason in aim.remove.items() if name in own}
    changed = [pin for pin in replaced if not same_release(pin.former or "", pin.release)]
    for pin in replaced:
        shared = pin not in changed and (pin.name in overwritten or is_cupy(pin.name))
        reasons[pin.name] = Reason.SHARED_FILES if shared else Reason.REPLACED
    stage = Store(Path(root)).stage(NUMBER)
    staging = caller.installer.staging(caller.options, stage.parent / "lock.txt", stage)
    sizes = [pin.size for pin in install if pin.size is not None]
    download = sum(sizes) if len(sizes) == len(install) else None
    plan = Plan(
        target=Place(scheme.executable, root, scheme.purelib, scheme.kind),
        installer=caller.installer.label,
        requirements=tuple(requirements),
        remove=tuple(Removal(name, own[name].release, reason, len(going[name])) for name, reason in reasons.items()),
        leftovers=tuple(map(Leftover, strays)),
        install=tuple(sorted(install, key=lambda pin: not is_cupy(pin.name))),
        moves=tuple(pin.name for pin in changed if pin.name not in aim.named | aim.free),
        commands=(*resolved.commands, *(map(Command, _STAGING, staging) if install else ())),
        undo=undo_command(scheme),
        space=Space(download, free_space(root), download * _GROWTH if download is not None else None),
        notes=tuple(
            f"{name} {holdings.releases[name]} is of another CUDA major version and stays, since other packages need "
            "it; CuPy may load it first"
            for name in aim.stay
        ),
    )
    return Prepared(plan, holdings, lock_text(install), (*leaving, *strays), caller)


def undo_command(scheme: Scheme) -> Command:
    """How an install is undone; ``numbered`` adds the number."""
    return Command("put the former state back", ("gpuenv", "rollback", "--python", scheme.prefix))


def _damaged(holdings: Holdings) -> tuple[str, ...]:
    """The CuPys whose files are not all there as they were installed."""
    records = ((entry, read_record(entry.metadata)) for entry in holdings.own.values() if is_cupy(entry.name))
    return tuple(entry.name for entry, record in records if record and is_damaged(entry.folder, record) is not None)


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


def _refuse_what_others_need(holdings: Holdings, aim: Aims, requirements: Sequence[str]) -> None:
    """Refuses to remove a CuPy line that a package requires by name, before anything is downloaded."""
    markers = holdings.scheme.markers
    before = set(faults(holdings.visible, markers))
    after = faults([entry for entry in holdings.visible if entry.name not in aim.remove], markers)
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


def _resolve(caller: Caller, requirements: Sequence[str], aim: Aims, holdings: Holdings) -> Resolved:
    """First so that nothing else moves; if that fails, so that everything else still has what it needs."""
    packages = holdings.visible
    there = {entry.name: entry.release for entry in packages if entry.name not in aim.remove}
    resolved, why = resolve_at_once(caller, requirements, frozen(aim, packages, free_too=True), there), ""
    if resolved is None:
        resolved, why = resolve_pins(caller, requirements, frozen(aim, packages))
    if why:
        resolved, why = resolve_pins(caller, requirements, _kept_working(aim, holdings))
    if why:
        raise _nothing_fits(why, requirements, aim, caller, holdings)
    refuse_other(caller, requirements, there | {pin.name: pin.release for pin in resolved.pins})
    return resolved


def lock_for(holdings: Holdings, caller: Caller, requirements: Sequence[str]) -> Lock:
    """The lock of these requirements for a target, together with what the target holds.

    Raises:
        InstallError: when there can be none.
    """
    aim = aims(requirements, holdings.visible, holdings.scheme.markers)
    lock, why = make_lock(caller, requirements, frozen(aim, holdings.visible))
    if lock is None:
        lock, why = make_lock(caller, requirements, _kept_working(aim, holdings))
    if lock is None:
        raise _nothing_fits(why, requirements, aim, caller, holdings)
    refuse_wheels(caller, (pin.name for pin in lock.pins))
    return lock


def _nothing_fits(why: str, requirements: Sequence[str], aim: Aims, caller: Caller, holdings: Holdings) -> InstallError:
    """Why it cannot be: where an empty environment would not take it either, this one is not the reason."""
    try:
        beside = make_lock(caller, requirements, ())[0] is not None
    except InstallError:
        beside = True
    return nothing_fits(why, requirements, aim.stay, caller, _kept_wants(aim, holdings), beside=beside)


def free_space(folder: str) -> int | None:
    """Bytes that this user may still fill on a folder's file system."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def summary_of(plan: Plan) -> str:
    """What a plan does, in words."""
    installed = join_words([f"{pin.name} {pin.release}" for pin in plan.install], _NAMED)
    gone = [entry.name for entry in plan.remove if entry.name not in {pin.name for pin in plan.install}]
    parts = [f"installed {installed}" if installed else "", f"removed {', '.join(gone)}" if gone else ""]
    parts += [f"removed {len(plan.leftovers)} leftover files"] if plan.leftovers else []
    return "; ".join(part for part in parts if part) or "nothing to do"


def numbered(plan: Plan, number: str) -> Plan:
    """The plan with the transaction's own number in its commands."""
    commands = (
        replace(command, argv=tuple(word.replace(f"/{NUMBER}/", f"/{number}/") for word in command.argv))
        for command in plan.commands
    )
    return replace(plan, commands=tuple(commands), undo=replace(plan.undo, argv=(*plan.undo.argv, number)))


def files_of(distribution: Installed, root: str) -> tuple[str, ...]:
    """The places of its files, relative to the root of the environment.

    Raises:
        TargetUnusable: when that is not known, or one is not the environment's.
    """
    record = read_record(distribution.metadata)
    name = f"{distribution.name} {distribution.release}"
    if distribution.installer == "conda" or (record is None and "/conda-meta" in distribution.metadata):
        raise TargetUnusable(f"{name} was installed by conda, and only conda can remove it", "Remove it with conda.")
    if record is None:
        raise TargetUnusable(
            f"{name} in {distribution.folder} has no RECORD: which files are its own is written down nowhere",
            "Remove it by hand, or make a new environment.",
        )
    real_folder = lru_cache(maxsize=None)(os.path.realpath)  # the files are thousands, their folders are not
    places = []
    for entry in record:
        path = os.path.normpath(os.path.join(distribution.folder, entry.path))
        folder, file = os.path.split(path)
        if not is_inside(path, root) or not is_inside(f"{real_folder(folder)}/{file}", real_folder(root)):
            raise TargetUnusable(
                f"{distribution.name}: its RECORD names a file outside of the environment: {entry.path!r}",
                "Look at how it came there; a new environment is the safe way.",
            )
        places.append(below(path, root))
    return tuple(places)


def owners(distributions: Iterable[Installed], root: str) -> dict[str, list[tuple[Installed, Entry]]]:
    """Which distributions own which place, by their RECORDs."""
    found: dict[str, list[tuple[Installed, Entry]]] = {}
    for distribution in distributions:
        for entry in read_record(distribution.metadata) or ():
            path = os.path.normpath(os.path.join(distribution.folder, entry.path))
            if is_inside(path, root):
                found.setdefault(below(path, root), []).append((distribution, entry))
    return found


def _leftovers(scheme: Scheme, owned: Mapping[str, object]) -> Iterator[str]:
    """Files of CuPy's modules that no distribution owns, and what an interrupted pip has left of one."""
    for folder in dict.fromkeys((scheme.purelib, scheme.platlib)):
        for module in _MODULES:
            yield from (place for place in _files_below(folder, module, scheme.root) if place not in owned)
        for name in _listed(folder):
            if name.startswith(_HALF_REMOVED) and name[1:].replace("_", "-").startswith("upy"):
                yield from _files_below(folder, name, scheme.root)


def left_metadata(scheme: Scheme, own: Mapping[str, Installed], named: Collection[str]) -> Iterator[str]:
    """The metadata that an update or a power cut has left, of CuPy and of the distributions ``named`` alone.

    Those of another release of a distribution that is there, or without a name.
    """
    used = {os.path.realpath(entry.metadata) for entry in own.values()}
    for folder in dict.fromkeys((scheme.purelib, scheme.platlib)):
        for entry in _listed(folder):
            name = canonicalize_name(entry.removesuffix(_METADATA).rpartition("-")[0])
            path = Path(folder, entry)
            ours = entry.endswith(_METADATA) and (name in named or is_cupy(name))
            if ours and not path.is_symlink() and os.path.realpath(path) not in used:
                yield from _files_below(folder, entry, scheme.root)


def _files_below(folder: str, name: str, root: str) -> Iterator[str]:
    for place, folders, files in os.walk(os.path.join(folder, name)):
        if "__pycache__" in folders:
            folders.remove("__pycache__")
        yield from (below(os.path.join(place, file), root) for file in files)


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names alone
    except OSError:
        return []
