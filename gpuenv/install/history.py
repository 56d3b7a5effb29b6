"""The installs that can be rolled back, as a record (``gpuenv.history/1``). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuenv.install.journal import Journal

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
