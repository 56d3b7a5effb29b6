"""Several things in one sentence. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def enumerated(words: Sequence[str], most: int) -> str:
    """``one, two and 3 more``: the first of them, and how many are left out.

    Args:
        words: all of them.
        most: how many are named.
    """
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more
