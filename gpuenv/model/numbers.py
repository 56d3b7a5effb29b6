"""Numbers in texts of others. Pure."""

from __future__ import annotations

LARGEST = 2**64
"""No whole number of a record is larger: the drivers count in 64 bits."""


def whole_number(text: str, digits: int = 9) -> int | None:
    """The number that a text is, in ASCII digits and nothing else, at most so many; None for anything else.

    ``str.isdigit`` is true of ``²``, which ``int`` refuses, as it does more than 4300 digits; and both take the digits
    of every script.
    """
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= digits else None
