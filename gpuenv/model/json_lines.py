"""On which line of a JSON text a value stands, which the standard library does not tell.

Other values are passed over by the library's own reader: a token at a time, a recording of some megabytes
takes gigabytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_BLANK = re.compile(r"[ \t\r\n]*")
_READER = json.JSONDecoder()


def line_of(text: str, path: str) -> int | None:
    """The line of the value at a path such as ``gpus[0].name``; of a key that stands twice, the one that counts.

    Args:
        text: valid JSON.
        path: keys and indices from the outermost value; empty for that itself.
    """
    begins = _after_blank(text, 0)
    place = _place(text, begins, "", path) if path else begins
    return None if place is None else text.count("\n", 0, place) + 1


def _place(text: str, at: int, here: str, path: str) -> int | None:
    """Where a key or an entry of a list begins that lies somewhere in the value at ``here``."""
    found = None
    for there, begins, value in _entries(text, at, here):
        inner = begins if there == path else None
        if path.startswith((f"{there}.", f"{there}[")):
            inner = _place(text, value, there, path)
        found = found if inner is None else inner
    return found


def _entries(text: str, at: int, here: str) -> Iterator[tuple[str, int, int]]:
    """The path of each entry of an object or a list, where it begins, and where its value does."""
    if text[at] not in "{[":
        return
    is_object, number = text[at] == "{", 0
    at = _after_blank(text, at + 1)
    while text[at] not in "}]":
        begins, there = at, f"{here}[{number}]"
        if is_object:
            key, at = _READER.raw_decode(text, at)
            there = f"{here}.{key}".lstrip(".")
            at = _after_blank(text, _after_blank(text, at) + len(":"))
        yield there, begins, at
        at = _after_blank(text, _READER.raw_decode(text, at)[1])
        at = _after_blank(text, at + len(",")) if text[at] == "," else at
        number += 1


def _after_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at
