"""On which line of a JSON text a value stands, which the standard library does not tell.

Other values are passed over by the library's own reader: a token at a time, a recording of some megabytes
takes gigabytes.
"""

from __future__ import annotations

import json
import re

_BLANK = re.compile(r"[ \t\r\n]*")
_READER = json.JSONDecoder()


def line_of(text: str, path: str) -> int | None:
    """The line of the value at a path such as ``gpus[0].name``; of a key that stands twice, the one that counts.

    Args:
        text: valid JSON.
        path: keys and indices from the outermost value; empty for that itself.
    """
    begins = _after_blank(text, 0)
    place = _find(text, begins, "", path) if path else begins
    return None if place is None else text.count("\n", 0, place) + 1


def _find(text: str, at: int, here: str, path: str) -> int | None:
    """Where the key or the entry of a list begins that is at ``path``, in the value at ``here``."""
    if text[at] not in "{[":
        return None
    found, is_object, number = None, text[at] == "{", 0
    at = _after_blank(text, at + 1)
    while text[at] not in "}]":
        begins, there = at, f"{here}[{number}]"
        if is_object:
            key, at = _READER.raw_decode(text, at)
            there = f"{here}.{key}".lstrip(".")
            at = _after_blank(text, _after_blank(text, at) + len(":"))
        if there == path:
            found = begins
        elif path.startswith((f"{there}.", f"{there}[")):
            inner = _find(text, at, there, path)
            found = found if inner is None else inner
        at = _after_blank(text, _READER.raw_decode(text, at)[1])
        at = _after_blank(text, at + len(",")) if text[at] == "," else at
        number += 1
    return found


def _after_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at
