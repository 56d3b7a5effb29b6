"""Finds whether a text contains one of many literals, in one pass over all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable

_END = -1  # a literal ends here; every other key of a tree is a byte
_Tree = dict[int, "_Tree"]


def any_of(literals: Iterable[str]) -> re.Pattern[bytes]:
    """A pattern that finds the first place of a text where any of the literals begins.

    What they have in common at their beginning is tried once: of a thousand literals, a place is compared with few.
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
