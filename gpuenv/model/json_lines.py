"""Finds the line of a value in a JSON text, which the standard library does not report.

The library's decoder skips other values: token by token, a snapshot of some megabytes takes gigabytes.
"""

from __future__ import annotations

import json
import re

_BLANK = re.compile(r"[ \t\r\n]*")
_READER = json.JSONDecoder()


def line_of(text: str, path: str) -> int | None:
    """Returns the line of the value at a path such as ``gpus[0].name``; for a repeated key, the effective one.

    An empty path is that of the outermost value.
    """
    begins = _after_blank(text, 0)
    position = _find(text, begins, "", path) if path else begins
    return None if position is None else text.count("\n", 0, position) + 1


def _find(text: str, at: int, current: str, path: str) -> int | None:
    """Returns the position of the key or list entry at ``path`` in the value at ``current``."""
    if text[at] not in "{[":
        return None
    found, is_object, number = None, text[at] == "{", 0
    at = _after_blank(text, at + 1)
    while text[at] not in "}]":
        begins, inner_path = at, f"{current}[{number}]"
        if is_object:
            key, at = _READER.raw_decode(text, at)
            inner_path = f"{current}.{key}".lstrip(".")
            at = _after_blank(text, _after_blank(text, at) + len(":"))
        if inner_path == path:
            found = begins
        elif path.startswith((f"{inner_path}.", f"{inner_path}[")):
            inner = _find(text, at, inner_path, path)
            found = found if inner is None else inner
        at = _after_blank(text, _READER.raw_decode(text, at)[1])
        at = _after_blank(text, at + len(",")) if text[at] == "," else at
        number += 1
    return found


def _after_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at
