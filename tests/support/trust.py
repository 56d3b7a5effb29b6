"""The rank of a source in the table of fact sources."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.fact_sources import Sources


def rank(sources: Sources, name: str) -> int | None:
    """The position of a source in the order of trust; None if the row does not name it."""
    return next((number for number, pattern in enumerate(sources.trust) if fnmatchcase(name, pattern)), None)
