"""Where something stands in a text, and a text of somebody else's that may be shown. Pure."""

from __future__ import annotations

import re


def line_of(pattern: str, text: str, start: int) -> int:
    """The first line from ``start`` on that matches; ``start`` itself where none does."""
    for number, line in enumerate(text.splitlines(), 1):
        if number >= start and re.search(pattern, line):
            return number
    return start


def safe(text: str) -> str:
    """The beginning of a text, without characters that cannot be printed."""
    return "".join(character if character.isprintable() else "?" for character in text[:60])
