r"""Compiles patterns in the notation of the files of messages.

A space matches any white space, since a message may be wrapped or indented. ``.*`` matches a gap, ``\S*`` or
``[\w-]*`` a word and ``\d+`` a number, all of bounded length, since the time for an unbounded one grows with the
square of the line's length.
"""

from __future__ import annotations

import re
from functools import cache

# A look-behind (which must have a fixed width), a class by itself or another escaped character is left alone.
_TOKENS = re.compile(
    r"(?:\\S|\\w|\[\\w/-\])\*\.\*|(?:\\[Swd]|\[\^?\]?(?:\\.|[^\]])*\])[*+]?|\\.|\(\?<[!=][^)]*\)|\.\*| [?*+]?"
)
# No known message has a longer gap or a longer word.
_GAP, _WORD = ".{0,200}", {"*": "{0,160}", "+": "{1,160}"}


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """A case-insensitive pattern, compiled on first use, since there are hundreds."""
    return re.compile(_TOKENS.sub(_loosened, pattern), re.IGNORECASE)


def _loosened(match: re.Match[str]) -> str:
    part = match[0]
    if part.endswith(".*"):  # a word before a gap is a part of the gap
        return _GAP
    if part[0] in "\\[" and len(part) > 2 and part[-1] in _WORD:  # noqa: PLR2004 - not an escaped character
        return part[:-1] + _WORD[part[-1]]
    if not part.startswith(" "):
        return part
    return r"\s*" if part in {" ?", " *"} else r"\s+"
