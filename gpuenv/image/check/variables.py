"""``$NAME`` and ``${NAME:-word}``, as Dockerfiles, compose files and shells replace them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

# What stands for a name: its value, None for one that nobody knows.
Lookup = Callable[[str], "str | None"]
_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?:(:?[-+?])((?:[^{}]|\$\{[^{}]*\})*))?\}|([A-Za-z_]\w*))")
_DEEPEST = 4


def replaced(text: str, lookup: Lookup, depth: int = 0) -> str:
    """The text with its variables replaced; one that nobody knows is left as it stands."""
    return _REFERENCE.sub(lambda match: _value(match, lookup, depth), text)


def is_known(text: str) -> bool:
    """Whether nothing was left that nobody knows."""
    return "$" not in text and "`" not in text


def _value(match: re.Match[str], lookup: Lookup, depth: int) -> str:
    name, operator, word = match[1] or match[4], match[2], match[3] or ""
    value = lookup(name)
    if operator is None or "?" in operator:
        return match[0] if value is None else value
    if depth >= _DEEPEST or ("+" in operator and value is None):
        return match[0]
    if "+" in operator:
        return replaced(word, lookup, depth + 1) if value else ""
    return value or replaced(word, lookup, depth + 1)  # where nobody knows, the default is what is meant
