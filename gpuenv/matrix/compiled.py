"""The matrix in a form that is read in a tenth of the time: JSON, a list a record, in the order of its fields. Pure.

Nothing is checked here: what is read was written by this module from a matrix that had been validated.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, lru_cache
from typing import Any, TypeAlias, Union, cast, get_args, get_origin, get_type_hints

from gpuenv.matrix.records import Matrix

# From what JSON has to what a field holds; None where both are the same.
_Reader: TypeAlias = "Callable[[Any], Any] | None"
_PLAIN = (str, bool, int, float)


def compiled(matrix: Matrix) -> str:
    """The text of a matrix."""
    return json.dumps(_packed(matrix), ensure_ascii=False, separators=(",", ":"))


def read_compiled(text: str) -> Matrix:
    """The matrix of a text.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: for anything but what ``compiled`` has written.
    """
    reader = _reader(Matrix)
    return cast("Matrix", reader(json.loads(text)) if reader else None)


def _packed(value: object) -> Any:  # noqa: ANN401 - JSON has no narrower type
    kind: Any = type(value)
    if is_dataclass(kind):
        if hasattr(kind, "parse"):
            return str(value)
        return [_packed(getattr(value, field.name)) for field in fields(kind)]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: _packed(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_packed(item) for item in value]
    return value


@cache
def _reader(kind: Any) -> _Reader:  # noqa: ANN401 - a type hint
    origin, args = get_origin(kind), get_args(kind)
    if kind in _PLAIN:
        return None
    if origin in (Union, types.UnionType):
        return _optional(_reader(next(option for option in args if option is not type(None))))
    if origin is not None:
        return _tuple(_reader(args[0])) if origin is tuple else _mapping(_reader(args[1]))
    return _of_class(kind)


def _of_class(kind: Any) -> _Reader:  # noqa: ANN401 - a class
    if hasattr(kind, "parse"):
        return lru_cache(maxsize=1024)(kind.parse)  # the same versions stand in many rows
    if issubclass(kind, Enum):
        return cast("Callable[[Any], Any]", kind)
    return _record(kind)


def _optional(inner: _Reader) -> _Reader:
    return None if inner is None else lambda data: None if data is None else inner(data)


def _tuple(inner: _Reader) -> _Reader:
    return tuple if inner is None else lambda data: tuple(map(inner, data))


def _mapping(inner: _Reader) -> _Reader:
    return None if inner is None else lambda data: {key: inner(item) for key, item in data.items()}


def _record(kind: Any) -> _Reader:  # noqa: ANN401 - a record's class
    hints = kind.__annotations__
    if any(isinstance(hint, str) for hint in hints.values()):  # of a module whose annotations are texts
        hints = get_type_hints(kind)
    readers = [_reader(hints[name]) for name in kind.__match_args__]
    places = [(place, reader) for place, reader in enumerate(readers) if reader is not None]

    def read(data: list[Any]) -> object:
        for place, reader in places:
            data[place] = reader(data[place])
        return kind(*data)

    return read
