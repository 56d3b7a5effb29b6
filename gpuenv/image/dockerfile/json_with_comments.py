"""JSON with comments, as editors write it, with the line on which each key stands.

Microsoft, "JSON with comments" of Visual Studio Code (its documentation, Languages, JSON, read 2026-11-22): comments of
both kinds and trailing commas. The values are read by the standard library, which tells no lines.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuenv.matrix.strict_yaml import Plain

# Either may lack its end and goes on to that of the text then, or every one of many would be sought to the end anew.
_STRING = r'"(?:[^"\\]|\\.?)*(?:"|\Z)'
# A string, which is kept, or a comment, which is not.
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)
_TOKEN = re.compile(rf"{_STRING}|[\[\]{{}}:]|\n", re.DOTALL)


class JsonError(ValueError):
    """What is no such JSON; the message has the line."""


def parse_json(text: str) -> tuple[Plain, dict[str, int]]:
    """The values, every scalar as a text, and the line of each key (``build.args``).

    Raises:
        JsonError: with the line.
    """
    bare = _COMMENT.sub(lambda match: match[0] if match[0][0] == '"' else "\n" * match[0].count("\n"), text)
    bare = _LAST_COMMA.sub(lambda match: match[0] if match[0][0] == '"' else "", bare)
    try:
        value = json.loads(bare, strict=False, parse_int=str, parse_float=str, parse_constant=str)
        return _plain(value), _lines(bare)
    except json.JSONDecodeError as error:
        raise JsonError(f"line {error.lineno}: {error.msg}") from error
    except RecursionError as error:
        raise JsonError("nested too deeply") from error


def _plain(value: object) -> Plain:
    if isinstance(value, dict):
        return {_whole(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, bool):
        return str(value).lower()
    return _whole(value) if isinstance(value, str) else None


def _whole(text: str) -> str:
    """The text; half a character, which JSON lets through and no file can hold, becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _lines(bare: str) -> dict[str, int]:
    """The line of each key; of one that stands twice, the later one, as its value is."""
    found: dict[str, int] = {}
    line = 1
    above: list[str] = []  # the path of each table or list that is open
    path = key = ""
    for part in _TOKEN.findall(bare):
        if part[0] == '"':
            key = part
        elif part == ":":
            path = f"{above[-1]}.{_whole(json.loads(key, strict=False))}".lstrip(".")
            found[path] = line
        elif part in "{[":
            above.append(path)
        elif part in "}]":
            path = above.pop()
        line += part.count("\n")
    return found
