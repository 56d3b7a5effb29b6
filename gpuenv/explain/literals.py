"""Finds whether a text contains one of many literals, in one pass over all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable

_END = -1  # key of the end of a literal; the other keys of a tree are bytes
_Tree = dict[int, "_Tree"]


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
