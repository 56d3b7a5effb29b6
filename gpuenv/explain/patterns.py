"""Patterns as signatures write them: a space stands for any white space, since a message may be wrapped or indented."""

from __future__ import annotations

import re
from functools import cache

# A class, a look-behind (which must have a fixed width) or an escaped character is left alone.
_TOKENS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]])*\]|\(\?<[!=][^)]*\)| [?*+]?")


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern without regard to case, compiled when it is first needed: there are hundreds."""
    return re.compile(_TOKENS.sub(_loosened, pattern), re.IGNORECASE)


def _loosened(match: re.Match[str]) -> str:
    token = match[0]
    if not token.startswith(" "):
        return token
    return r"\s*" if token in {" ?", " *"} else r"\s+"
