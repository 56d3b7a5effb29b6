r"""Patterns as signatures write them.

A space stands for any white space, since a message may be wrapped or indented; ``.*`` and ``\S*`` stand for a gap and
a word of bounded length, since of several unbounded ones a long line would be tried in every combination.
"""

from __future__ import annotations

import re
from functools import cache

# A class, a look-behind (which must have a fixed width) or an escaped character is left alone.
_TOKENS = re.compile(r"(?:\\S|\\w|\[\\w/-\])\*\.\*|\\S[*+]|\\.|\[\^?\]?(?:\\.|[^\]])*\]|\(\?<[!=][^)]*\)|\.\*| [?*+]?")
# No message that is known has a longer gap, or a longer word.
_BOUNDED = {".*": ".{0,200}", r"\S*": r"\S{0,160}", r"\S+": r"\S{1,160}"}


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern without regard to case, compiled when it is first needed: there are hundreds."""
    return re.compile(_TOKENS.sub(_loosened, pattern), re.IGNORECASE)


def _loosened(match: re.Match[str]) -> str:
    part = match[0]
    if part.endswith(".*") and part != ".*":  # a word before a gap is a part of the gap
        part = ".*"
    if part in _BOUNDED:
        return _BOUNDED[part]
    if not part.startswith(" "):
        return part
    return r"\s*" if part in {" ?", " *"} else r"\s+"
