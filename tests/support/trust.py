"""How far a source of a fact is trusted, by the table."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.fact_sources import Sources


def rank(sources: Sources, name: str) -> int | None:
    """How far down the order of trust a source stands; None where the row does not know it."""
    return next((number for number, pattern in enumerate(sources.trust) if fnmatchcase(name, pattern)), None)
