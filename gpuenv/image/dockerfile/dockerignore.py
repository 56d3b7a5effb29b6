"""Which files of a folder .dockerignore keeps out of the build context.

Docker, Build context, .dockerignore files (docs, read November 2026): one pattern a line, as of Go's filepath.Match,
``**`` for any number of folders; a folder that is left out takes all below it along; behind ``!`` stands what is in all
the same; the last line that matches decides. A file named after the Dockerfile goes before the folder's own.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

_MOST, _LONGEST = 1000, 500
_ANY = "**"
_SPECIAL = re.compile(r"\\(?P<escaped>.)|\[(?P<first>[\^!])")


@dataclass(frozen=True, slots=True)
class IgnorePattern:
    """A line of .dockerignore: the parts of its pattern, and whether it is an exception (``!``)."""

    parts: tuple[str, ...]
    kept: bool


def patterns_of(text: str) -> tuple[IgnorePattern, ...]:
    """The patterns of a .dockerignore."""
    lines = (line.strip() for line in text.removeprefix("\ufeff").splitlines()[:_MOST] if not line.startswith("#"))
    found = (_line(line) for line in lines if 0 < len(line) <= _LONGEST)
    return tuple(line for line in found if line is not None)


def is_ignored(path: str, lines: Sequence[IgnorePattern]) -> bool:
    """Whether a path of the folder stays out: by itself, or with a folder that it lies in."""
    parts = posixpath.normpath(path).lstrip("/").split("/")
    out = False
    for line in lines:
        if out == line.kept and _matches(line.parts, parts):
            out = not line.kept
    return out


def _line(text: str) -> IgnorePattern | None:
    bare = posixpath.normpath(text.removeprefix("!").strip() or ".").lstrip("/")
    if bare == ".":
        return None  # of the folder itself nothing is left out
    parts = (part if part == _ANY else _SPECIAL.sub(_as_fnmatch, part) for part in bare.split("/"))
    return IgnorePattern(tuple(parts), text.startswith("!"))


def _as_fnmatch(found: re.Match[str]) -> str:
    """Go's ``[^`` is ``[!`` of fnmatch; its ``[!`` is a class with ``!``; a slash, which no part has, is put first."""
    if found["first"]:
        return "[!" if found["first"] == "^" else "[/!"
    return "[]]" if found["escaped"] == "]" else f"[/{found['escaped']}]"


def _matches(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether it matches a path or a folder above it; all alternatives advance together, so that none repeats."""
    ways = _opened({0}, pattern)
    for part in parts:
        further = {at for at in ways if at < len(pattern) and pattern[at] == _ANY}
        further |= {at + 1 for at in ways if at < len(pattern) and fnmatchcase(part, pattern[at])}
        ways = _opened(further, pattern)
        if len(pattern) in ways:
            return True
    return False


def _opened(ways: Iterable[int], pattern: Sequence[str]) -> set[int]:
    """The same positions, and those behind each ``**``, which may match no folder at all."""
    found = set(ways)
    for at in range(len(pattern)):
        if at in found and pattern[at] == _ANY:
            found.add(at + 1)
    return found
