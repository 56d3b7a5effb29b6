"""The installs that can be rolled back, as a record (``gpuenv.history/1``). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuenv.install.journal import Journal
from gpuenv.install.records import Command, Pin, Place, Plan, Reason, Removal, Space
from gpuenv.model.record import dataclass

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


def plan_of_rollback(journals: Sequence[Journal], target: Place) -> Plan:
    """What undoing these installs, the newest first, would take out and bring back; nothing is downloaded for it."""
    there: dict[str, str] = {}
    for journal in reversed(journals):
        there.update((name, release) for name, _, release in (text.partition("==") for text in journal.installed))
    files = {journal.number: len(journal.put) for journal in journals}
    former = journals[-1].former
    coming = {text.partition("==")[0] for journal in journals for text in journal.removed}
    back = tuple(Pin(name, former[name], former=there.get(name)) for name in sorted(coming) if name in former)
    gone = tuple(Removal(name, release, Reason.CAME_WITH_INSTALL, 0) for name, release in sorted(there.items()))
    return Plan(
        target=target,
        installer="the journal",
        requirements=(),
        remove=gone,
        leftovers=(),
        install=back,
        moves=(),
        commands=(),
        undo=Command("a rollback is not undone: install again", ()),
        space=Space(0, None),
        notes=tuple(
            f"install {number}: {count} files go, those that they replaced return" for number, count in files.items()
        ),
    )
