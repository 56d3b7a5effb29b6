"""Lines of a text report, with their style and indentation on a terminal."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Style(str, Enum):
    """The role of a line, which decides its colour on a terminal."""

    PLAIN = "plain"
    HEADING = "heading"
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"
    QUIET = "quiet"
    COMMAND = "command"


class TextLine(NamedTuple):
    """A line; if it is wrapped, the continuation is indented by ``hang`` columns."""

    text: str = ""
    style: Style = Style.PLAIN
    hang: int = 0


def counted(number: int, noun: str) -> str:
    """``1 error``, ``2 errors``: a noun with a regular plural."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def age_text(days: int | None) -> str:
    """``, 5 days old``; empty for an unknown age or a future date."""
    return "" if days is None or days < 0 else f", {counted(days, 'day')} old"
