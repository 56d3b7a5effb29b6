"""``$NAME``, ``${NAME:-word}`` and ``${NAME%.*}``, as Dockerfiles, compose files and shells replace them."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase

# The value of a variable; None if unknown.
Lookup = Callable[[str], "str | None"]
_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?:(:?[-+?]|%%?|\#\#?|//?)((?:[^{}]|\$\{[^{}]*\})*))?\}|([A-Za-z_]\w*))")
_DEEPEST = 4
_LONGEST = 1000  # characters of a value and of a pattern that is tried on it
_MOST = 20_000  # characters that one text expands to: each variable may double the one before
_MOST_IN_ALL = 1_000_000  # characters of variables in the commands of a file: each command may have long ones


class TooLongError(ValueError):
    """A text whose variables expand to too many characters."""

    def __init__(self, whose: str = "its variables", most: int = _MOST) -> None:
        super().__init__(f"{whose} expand to more than {most} characters")


class Expansion:
    """Replaces the variables in the commands of one file or image, which have a limit in all."""

    def __init__(self) -> None:
        self._left = _MOST_IN_ALL

    def substitute(self, text: str, lookup: Lookup) -> str:
        """The text with its variables replaced, as ``substitute`` does.

        Raises:
            TooLongError: if the result, or all results together, are too long.
        """

        def counted(name: str) -> str | None:
            value = lookup(name)
            self._spend(len(value or ""))
            return value

        found = substitute(text, counted)
        self._spend(len(found) - len(text))
        return found

    def _spend(self, count: int) -> None:
        self._left -= max(0, count)
        if self._left < 0:
            raise TooLongError("the variables in all commands up to here", _MOST_IN_ALL)


def substitute(text: str, lookup: Lookup, depth: int = 0) -> str:
    """The text with its variables replaced; an unknown variable is not replaced.

    Raises:
        TooLongError: if the result is too long.
    """
    left = _MOST

    def value(match: re.Match[str]) -> str:
        nonlocal left
        found = _value(match, lookup, depth)
        left -= len(found)
        if left < 0:
            raise TooLongError
        return found

    return _REFERENCE.sub(value, text)


def is_known(text: str) -> bool:
    """Whether a text contains no unknown variable or substitution."""
    return "$" not in text and "`" not in text


def _value(match: re.Match[str], lookup: Lookup, depth: int) -> str:
    name, operator, word = match[1] or match[4], match[2], match[3] or ""
    value = lookup(name)
    if operator is None or "?" in operator:
        return match[0] if value is None else value
    if depth >= _DEEPEST or ("+" in operator and value is None):
        return match[0]
    if operator[0] in "%#/":
        return match[0] if value is None else _cut(value, operator, word)
    if "+" in operator:
        return substitute(word, lookup, depth + 1) if value else ""
    return value or substitute(word, lookup, depth + 1)  # unknown: the default is meant


def _cut(value: str, operator: str, word: str) -> str:
    """A part of a value: without a suffix (%) or prefix (#), or with a replacement (/)."""
    if len(value) > _LONGEST or len(word) > _LONGEST:
        return value
    if operator[0] == "/":
        pattern, _, other = word.replace("\\", "").partition("/")
        return value.replace(pattern, other, -1 if operator == "//" else 1) if pattern else value
    every = range(len(value) + 1)
    for index in every if operator in ("%%", "#") else reversed(every):
        rest, left = (value[index:], value[:index]) if operator[0] == "%" else (value[:index], value[index:])
        if fnmatchcase(rest, word):
            return left
    return value
