"""On which line of a JSON text a value stands, which the standard library does not tell. Pure."""

from __future__ import annotations

import json
import re

# A string, a bracket or mark, the end of a line, or a number or word.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|\n|[^\s\[\]{}:,"]+')


def line_of(text: str, path: str) -> int | None:
    """The line of the value at a path such as ``gpus[0].name``; of a key that stands twice, the one that counts.

    Args:
        text: valid JSON.
        path: keys and indices from the outermost value; empty for that itself.
    """
    found: dict[str, int] = {}
    above: list[tuple[str, int | None]] = []  # the path of each object or list that is open, and of a list the index
    here, line, key_follows = "", 1, False
    for part in _TOKEN.findall(text):
        if part == "\n":
            line += 1
        elif part in "}]":
            above.pop()
        elif part == ",":
            within, index = above[-1]
            key_follows = index is None
            if index is not None:
                above[-1] = (within, index + 1)
                here = f"{within}[{index + 1}]"
        elif part == ":":
            key_follows = False
        elif key_follows:
            here = f"{above[-1][0]}.{json.loads(part)}".lstrip(".")
            found[here] = line
        else:
            if not above or above[-1][1] is not None:
                found[here] = line
            if part in "{[":
                above.append((here, 0 if part == "[" else None))
                key_follows = part == "{"
                here = f"{here}[0]"
    return found.get(path)
