"""Records to plain JSON values and back, by their type hints; and the JSON Schema of a record.

A record is a frozen dataclass of: text, numbers, booleans, enums, versions (anything with ``parse``), other records,
tuples and text-keyed mappings of these, and optionals. A wrong input raises ``DecodeError`` with the path to it.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache, lru_cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from gpuenv.model.text import LARGEST, harmless

R = TypeVar("R")
_PLAIN = frozenset((str, int, float, bool, type(None)))


class DecodeError(ValueError):
    """The input does not have the form of the record; the message begins with the path to the fault.

    Attributes:
        path: that path, such as ``gpus[0].name``; empty for the whole input.
        said: what is wrong there.
    """

    def __init__(self, path: str, said: str) -> None:
        """Takes the path with the dot before it, as it is gathered."""
        self.path, self.said = path.lstrip("."), said
        super().__init__(f"{harmless(self.path) or 'the input'}: {said}")


def encode(value: object) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """A record as dicts, lists and scalars, in the order of its fields."""
    kind: Any = type(value)
    if kind not in _PLAIN and is_dataclass(kind):  # plain is nearly all of what a long record holds
        if hasattr(kind, "parse"):
            return str(value)
        return {name: encode(getattr(value, name)) for name in _field_names(kind)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    return value


def decode(kind: type[R], data: object, *, texts: bool = False) -> R:
    """A record from plain values; unknown keys are ignored, since later releases add some.

    Args:
        kind: the record's class.
        data: plain values, as JSON gives them.
        texts: numbers and truth values are given as text, and unknown keys are faults, as in hand-written data.

    Raises:
        DecodeError: with the path to the fault and what was expected there.
    """
    return cast("R", _Decoder(texts).value(kind, data, "", {}))


def _field_names(kind: Any) -> tuple[str, ...]:  # noqa: ANN401 - a record's class
    return cast("tuple[str, ...]", kind.__match_args__)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


@cache
def _origin(kind: Any) -> Any:  # noqa: ANN401 - a type hint; asked of every value
    return get_origin(kind)


@cache
def _args(kind: Any) -> tuple[Any, ...]:  # noqa: ANN401 - a type hint
    return get_args(kind)


class _Decoder:
    """Goes down the type hints and the data together; ``bound`` holds what generic records were given."""

    def __init__(self, texts: bool) -> None:  # noqa: FBT001 - one private caller
        self._texts = texts

    def value(self, kind: Any, data: object, path: str, bound: Mapping[Any, Any]) -> object:  # noqa: ANN401 - a type hint
        kind = bound.get(kind, kind)
        if kind is str and isinstance(data, str):
            return data
        origin = _origin(kind)
        if origin in (Union, types.UnionType):
            return self._optional(kind, data, path, bound)
        if origin is tuple:
            if not isinstance(data, list):
                raise _error(path, "a list", data)
            item = _args(kind)[0]
            return tuple(self.value(item, entry, f"{path}[{number}]", bound) for number, entry in enumerate(data))
        if isinstance(origin, type) and issubclass(origin, Mapping):
            if not isinstance(data, dict):
                raise _error(path, "an object", data)
            item = _args(kind)[1]
            return {str(key): self.value(item, entry, f"{path}.{key}", bound) for key, entry in data.items()}
        if is_dataclass(origin or kind):
            return self._record(kind, data, path, bound)
        return self._scalar(kind, data, path)

    def _optional(self, kind: Any, data: object, path: str, bound: Mapping[Any, Any]) -> object:  # noqa: ANN401 - a type hint
        if data is None:
            return None
        (inner,) = [option for option in _args(kind) if option is not type(None)]
        return self.value(inner, data, path, bound)

    def _record(self, kind: Any, data: object, path: str, bound: Mapping[Any, Any]) -> object:  # noqa: ANN401 - a type hint
        origin = _origin(kind) or kind
        if hasattr(origin, "parse"):
            return _parsed(origin, data, path)
        if not isinstance(data, dict):
            raise _error(path, "an object", data)
        if parameters := getattr(origin, "__parameters__", ()):
            bound = dict(zip(parameters, (bound.get(given, given) for given in _args(kind)), strict=False))
        names, hints = _field_names(origin), _hints(origin)
        if self._texts and (unknown := sorted(set(data) - set(names))):
            raise DecodeError(f"{path}.{unknown[0]}", f"unknown key; expected one of {', '.join(names)}")
        given = {n: self.value(hints[n], data[n], f"{path}.{n}", bound) for n in names if n in data}
        try:
            return origin(**given)
        except TypeError as error:
            lacking = ", ".join(name for name in _required(origin) if name not in data)
            raise DecodeError(path, f"lacks {lacking or error}") from error

    def _scalar(self, kind: Any, data: object, path: str) -> object:  # noqa: ANN401 - a type hint
        if isinstance(kind, type) and issubclass(kind, Enum):
            try:
                return kind(data)
            except ValueError:
                raise _error(path, "one of " + ", ".join(str(member.value) for member in kind), data) from None
        if self._texts and isinstance(data, str) and kind is not str:
            return _from_text(kind, data, path)
        if not isinstance(data, (int, float) if kind is float else kind):
            raise _error(path, _NAMES[kind], data)
        return _number(kind, data, path) if kind in (int, float) else data


_LARGEST = {int: LARGEST, float: 2**1023}
_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def _required(kind: Any) -> list[str]:  # noqa: ANN401 - a record's class
    return [field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING]


def _from_text(kind: Any, data: str, path: str) -> object:  # noqa: ANN401 - a type hint
    if kind is bool:
        if data in ("true", "false"):
            return data == "true"
        raise _error(path, _NAMES[bool], data)
    try:
        return _number(kind, kind(data), path)
    except ValueError:
        raise _error(path, _NAMES[kind], data) from None


def _number(kind: type[int | float], data: Any, path: str) -> int | float:  # noqa: ANN401 - a number, or true and false
    """A number that JSON has, which infinity and NaN are not, and that others than Python can read."""
    if isinstance(data, bool) or not abs(data) <= _LARGEST[kind]:
        raise _error(path, _NAMES[kind], data)
    return kind(data)


def _parsed(kind: Any, data: object, path: str) -> object:  # noqa: ANN401 - a type hint
    if not isinstance(data, str):
        raise _error(path, "text", data)
    try:
        return _version(kind, data)
    except ValueError as error:
        raise DecodeError(path, str(error)) from error


@lru_cache(maxsize=4096)
def _version(kind: Any, text: str) -> object:  # noqa: ANN401 - any class with parse
    """Versions do not change, and a matrix or a snapshot tells the same ones again and again."""
    return kind.parse(text)


def _error(path: str, expected: str, data: object) -> DecodeError:
    shown = repr(data)
    return DecodeError(path, f"expected {expected}, found {shown[:60]}")
