r"""Compiles patterns in the notation of the files of messages, and finds their literals in one pass.

A space matches any white space, since a message may be wrapped or indented. ``.*`` matches a gap, ``\S*`` or
``[\w-]*`` a word and ``\d+`` a number, all of bounded length, since the time for an unbounded one grows with the
square of the line's length.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

# A look-behind (which must have a fixed width), a class by itself or another escaped character is left alone.
_TOKENS = re.compile(
    r"(?:\\S|\\w|\[\\w/-\])\*\.\*|(?:\\[Swd]|\[\^?\]?(?:\\.|[^\]])*\])[*+]?|\\.|\(\?<[!=][^)]*\)|\.\*| [?*+]?"
)
# No known message has a longer gap or a longer word.
_GAP, _WORD = ".{0,200}", {"*": "{0,160}", "+": "{1,160}"}
_END = -1  # key of the end of a literal; the other keys of a tree are bytes
_Tree = dict[int, "_Tree"]


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


def any_of(literals: Iterable[str]) -> re.Pattern[bytes]:
    """A pattern that finds the first of the literals in a text.

    Common prefixes are compared once, so that each place is compared with few of a thousand literals.
    """
    tree: _Tree = {}
    for literal in sorted(literals, key=len):
        node = tree
        for byte in literal.encode():
            if _END in node:  # a shorter one has been found by then
                break
            node = node.setdefault(byte, {})
        else:
            node.clear()
            node[_END] = {}
    return re.compile(_alternatives(tree) if tree else b"(?!)")


def _alternatives(tree: _Tree) -> bytes:
    if _END in tree:
        return b""
    parts = [re.escape(bytes([byte])) + _alternatives(below) for byte, below in sorted(tree.items())]
    return parts[0] if len(parts) == 1 else b"(?:" + b"|".join(parts) + b")"
