"""Sizes of memory and of files as people write them, in bytes."""

from __future__ import annotations

import re

# nvidia-smi and people say 80G for GiB; 80GB is decimal, as it is on a card's box.
_UNITS = {"b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_UNITS |= {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "tb": 10**12}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([a-z]*)", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Bytes of ``80GiB``, ``512 MiB``, ``80GB`` (decimal) or ``80G`` (binary).

    A number alone would be bytes, which nobody means.

    Raises:
        ValueError: with an example of what was expected.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is not None and not match[2]:
        raise ValueError("expected a size with its unit, like 80GiB")
    if match is None or match[2].lower() not in _UNITS:
        raise ValueError("expected a size like 80GiB")
    size = int(float(match[1]) * _UNITS[match[2].lower()])
    if size <= 0:
        raise ValueError("expected a size above nothing, like 80GiB")
    return size


def size_text(size: int) -> str:
    """``79.6 GiB``, ``512 MiB``, ``7 KiB``, ``12 B``."""
    if size >= 2**30:
        return f"{size / 2**30:.1f} GiB"
    if size >= 2**20:
        return f"{size / 2**20:.0f} MiB"
    return f"{size / 2**10:.0f} KiB" if size >= 2**10 else f"{size} B"
