"""Lines of a text report, with what a terminal needs to show them."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Style(str, Enum):
    """What a line is; a terminal may give it a colour."""

    PLAIN = "plain"
    HEADING = "heading"
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"
    QUIET = "quiet"
    COMMAND = "command"


class Line(NamedTuple):
    """A line; a terminal wraps it under ``hang`` columns."""

    text: str = ""
    style: Style = Style.PLAIN
    hang: int = 0


def counted(number: int, word: str) -> str:
    """``1 error``, ``2 errors``: a word whose plural has an s."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
