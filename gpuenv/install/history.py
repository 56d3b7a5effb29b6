"""The installs that can be rolled back, as a record (``gpuenv.history/1``). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuenv.install.journal import Journal
from gpuenv.install.records import Command, Pin, Place, Plan, Reason, Removal, Space

SCHEMA = "gpuenv.history/1"


@dataclass(frozen=True, slots=True)
class Past:
    """One install.

    Attributes:
        number: what to give to ``gpuenv rollback``.
        created_at: when, by the clock that the machine had then.
        summary: what it did.
        removed: what left, as ``name==version``.
        installed: what came, as ``name==version``.
        former: name and version of every distribution before.
    """

    number: str
    created_at: str | None
    summary: str
    removed: tuple[str, ...]
    installed: tuple[str, ...]
    former: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class History:
    """The newest first."""

    installs: tuple[Past, ...]
    schema: str = SCHEMA


def history_of(journals: Sequence[Journal]) -> History:
    """The journals without the files they moved."""
    return History(tuple(Past(j.number, j.created_at, j.summary, j.removed, j.installed, j.former) for j in journals))


def plan_of_rollback(journals: Sequence[Journal], target: Place, condas: Mapping[str, str]) -> Plan:
    """What undoing these installs, the newest first, would take out and bring back.

    Args:
        journals: of the installs.
        target: the environment.
        condas: number of an install of conda's -> the program that leads back; nothing is downloaded for the others.
    """
    there: dict[str, str] = {}
    for journal in reversed(journals):
        there.update((name, release) for name, _, release in (text.partition("==") for text in journal.installed))
    former = journals[-1].former
    coming = {text.partition("==")[0] for journal in journals for text in journal.removed}
    back = tuple(Pin(name, former[name], former=there.get(name)) for name in sorted(coming) if name in former)
    gone = tuple(Removal(name, release, Reason.CAME_WITH_INSTALL, 0) for name, release in sorted(there.items()))
    return Plan(
        target=target,
        installer=" and ".join(dict.fromkeys(condas.get(journal.number, "the journal") for journal in journals)),
        requirements=(),
        remove=gone,
        leftovers=(),
        install=back,
        moves=(),
        commands=(),
        undo=Command("a rollback is not undone: install again", ()),
        space=Space(None if condas else 0, None),
        notes=tuple(_note(journal, condas.get(journal.number)) for journal in journals),
    )


def _note(journal: Journal, conda: str | None) -> str:
    if conda is not None:
        return f"install {journal.number}: {conda} puts the former packages back, from its cache or its channels"
    return f"install {journal.number}: {len(journal.put)} files go, those that they replaced return"
