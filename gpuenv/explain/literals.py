"""Finds which of many literals a text contains, in one pass over all of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

_GRAM = 3  # characters; no literal is shorter
_END = -1  # a literal ends here; every other key of a tree is a byte
_Tree = dict[int, "_Tree"]


class LiteralIndex:
    """Finds, for a text, whose literals it contains.

    Args:
        owners: the literals of each owner, in lower case and at least three characters long.

    Attributes:
        longest: how many characters the longest literal has.
    """

    def __init__(self, owners: Sequence[Iterable[str]]) -> None:
        pairs = [(literal, owner) for owner, literals in enumerate(owners) for literal in literals]
        self.longest = max((len(literal) for literal, _ in pairs), default=0)
        often = Counter(gram for literal, _ in pairs for gram in grams_of(literal))
        self._by_gram: dict[str, list[tuple[str, int]]] = {}
        for literal, owner in pairs:  # each is looked for where the part is that the fewest others have
            rarest = min(sorted(grams_of(literal)), key=often.__getitem__)
            self._by_gram.setdefault(rarest, []).append((literal, owner))

    def owners(self, text: str, grams: frozenset[str] | None = None) -> list[int]:
        """The owners with at least one literal in a lower-case text, in their order.

        Args:
            text: the text.
            grams: what :func:`grams_of` has of it, or of a text that contains it, where that is known.
        """
        found: set[int] = set()
        for gram in self._by_gram.keys() & (grams_of(text) if grams is None else grams):
            for literal, owner in self._by_gram[gram]:
                if literal in text:
                    found.add(owner)
        return sorted(found)


def grams_of(text: str) -> frozenset[str]:
    """All the parts of a text that have three characters."""
    return frozenset(text[place : place + _GRAM] for place in range(len(text) - _GRAM + 1))


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
