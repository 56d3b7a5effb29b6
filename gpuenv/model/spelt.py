"""Values in words, one way for every text. Pure."""

from __future__ import annotations

from enum import Enum

NONE = "none"  # what was looked for and is not there


def spelt(value: object) -> str:
    """A value as people write it, and as ``--assume`` takes it: yes and no, and no name of Python's."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, (list, tuple)):
        return ", ".join(map(spelt, value)) or NONE
    return str(value)
