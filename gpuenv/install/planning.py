"""A plan, from what was chosen and what is there. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuenv.install.aims import Aims
from gpuenv.install.holdings import Holdings, as_package
from gpuenv.install.paths import JOURNALS
from gpuenv.install.records import Command, Leftover, Pin, Place, Plan, Reason, Removal, Space
from gpuenv.install.resolving import Caller
from gpuenv.install.wants import Package
from gpuenv.matrix.ranges import same_release
from gpuenv.model.enumeration import enumerated
from gpuenv.model.lines import is_cupy

_STAGING = ("put the new wheels together beside the environment", "the same with the index, if that does not do")
_NAMED = 3
# Unpacked, the wheels that cupy-cuda12x[ctk] 14.2.0 brings for x86_64 are 1.46 (nvidia-cublas-cu12 12.9.2.10) to 2.99
# times (cuda-pathfinder 1.9.0) as large as their files: zip's own sizes, read in November 2026.
_GROWTH = 3
NUMBER = "NUMBER"  # stands for the transaction's own in what a plan shows


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen.

    Attributes:
        requirements: the resolver's.
        aim: what leaves, and what may move.
        install: the wheels that come.
        overwritten: the distributions that stay and whose files another one has overwritten.
        strays: the files that nobody owns.
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
