"""Records to plain JSON values and back, by their type hints.

A record is a frozen dataclass or a NamedTuple of: text, numbers, booleans, enums, versions (anything with ``parse``),
other records, tuples and text-keyed mappings of these, and optionals. A wrong input raises ``DecodeError`` with the
path to it.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache, lru_cache
from typing import Any, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from gpuenv.model.redaction import cut_text
from gpuenv.model.strings import MAX_INTEGER, sanitize

R = TypeVar("R")
_Reader: TypeAlias = "Callable[[Any], Any]"  # makes a field's value from a plain one; raises DecodeError
_PLAIN = frozenset((str, int, float, bool, type(None)))
_LARGEST = {int: MAX_INTEGER, float: 2**1023}
_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


class DecodeError(ValueError):
    """The input does not have the form of the record; the message begins with the path to the fault.

    Attributes:
        path: that path, such as ``gpus[0].name``; empty for the whole input.
        problem: what is wrong at that path.
    """

    def __init__(self, path: str, problem: str) -> None:
        """Takes the path from the outermost record, each step with its dot or brackets."""
        self.steps, self.path, self.problem = path, path.lstrip("."), problem
        super().__init__(f"{sanitize(self.path) or 'the input'}: {problem}")


def encode(value: object) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """A record as dicts, lists and scalars, in the order of its fields."""
    kind: Any = type(value)
    if kind not in _PLAIN and is_record(kind):  # plain is nearly all of what a long record holds
        if hasattr(kind, "parse"):
            return str(value)
        return {name: encode(getattr(value, name)) for name in field_names(kind)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    return value


def to_json(record: object) -> str:
    """A record as its JSON document, with all names and identities in it."""
    return json.dumps(encode(record), indent=2, ensure_ascii=False, allow_nan=False)


class Form(Enum):
    """How the plain values of a record are given."""

    JSON = 0  # unknown keys are ignored, since later releases add some
    WRITTEN = 1  # by hand: unknown keys are faults, and fractions are texts
    TEXTS = 2  # by hand, and all numbers and truth values are texts


def decode(kind: type[R], data: object, form: Form = Form.JSON) -> R:
    """A record from plain values.

    Raises:
        DecodeError: with the path to the fault and what was expected there.
    """
    return cast("R", _reader(cast("Any", kind), form)(data))


@cache
def _reader(kind: Any, form: Form) -> _Reader:  # noqa: ANN401, PLR0911 - a type hint, private, one return a form
    """Builds the reader of a type hint once; a matrix has thousands of values of a few types."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        inner = _reader(next(option for option in args if option is not type(None)), form)
        return lambda data: None if data is None else inner(data)
    if origin is tuple:
        return _tuple_reader(_reader(args[0], form))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_reader(_reader(args[1], form))
    if hasattr(origin or kind, "parse"):
        return _version_reader(kind)
    if is_record(origin or kind):
        return _record_reader(kind, form)
    if issubclass(kind, Enum):
        return _enum_reader(kind)
    return _text if kind is str else _scalar_reader(kind, form)


def _tuple_reader(item: _Reader) -> _Reader:
    def read(data: Any) -> tuple[Any, ...]:  # noqa: ANN401 - a plain value
        if not isinstance(data, list):
            raise _error("a list", data)
        entries = []
        try:
            for entry in data:
                entries.append(item(entry))  # noqa: PERF401 - the length names the entry at fault
        except DecodeError as error:
            raise _within(f"[{len(entries)}]", error) from error.__cause__
        return tuple(entries)

    return read


def _mapping_reader(item: _Reader) -> _Reader:
    def read(data: Any) -> dict[str, Any]:  # noqa: ANN401 - a plain value
        if not isinstance(data, dict):
            raise _error("an object", data)
        entries = {}
        for key, entry in data.items():
            try:
                entries[str(key)] = item(entry)
            except DecodeError as error:
                raise _within(f".{key}", error) from error.__cause__
        return entries

    return read


def _record_reader(kind: Any, form: Form) -> _Reader:  # noqa: ANN401 - a record's class
    origin = get_origin(kind) or kind
    bound = dict(zip(getattr(origin, "__parameters__", ()), get_args(kind), strict=False))
    names = field_names(origin)
    known = frozenset(names)

    @cache
    def readers() -> list[tuple[str, _Reader]]:  # at the first use, since a record may hold itself
        hints = get_type_hints(origin)
        return [(name, _reader(_bind(hints[name], bound), form)) for name in names]

    def read(data: Any) -> object:  # noqa: ANN401 - a plain value
        if not isinstance(data, dict):
            raise _error("an object", data)
        if form is not Form.JSON and not data.keys() <= known:
            raise DecodeError(f".{min(data.keys() - known)}", f"unknown key; expected one of {', '.join(names)}")
        values = {}
        for name, reader in readers():
            if name in data:
                try:
                    values[name] = reader(data[name])
                except DecodeError as error:
                    raise _within(f".{name}", error) from error.__cause__
        try:
            return origin(**values)
        except TypeError as error:
            missing = ", ".join(name for name in required_fields(origin) if name not in data)
            raise DecodeError("", f"lacks {missing or error}") from error

    return read


def _bind(hint: Any, bound: Mapping[Any, Any]) -> Any:  # noqa: ANN401 - a type hint
    """The type hint of a generic record's field, with its type variables replaced."""
    if hint in bound:
        return bound[hint]
    parameters = getattr(hint, "__parameters__", ())
    return hint[tuple(bound[parameter] for parameter in parameters)] if parameters else hint


def is_record(kind: Any) -> bool:  # noqa: ANN401 - a type hint
    """Whether a type is that of a record."""
    return is_dataclass(kind) or hasattr(kind, "_field_defaults")


@cache
def field_names(kind: Any) -> tuple[str, ...]:  # noqa: ANN401 - a record's class
    """The names of a record's fields, in their order."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else cast("tuple[str, ...]", kind._fields)


def field_defaults(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - a record's class
    """The defaults of the fields that have one."""
    if not is_dataclass(kind):
        return dict(kind._field_defaults)
    return {field.name: field.default for field in fields(kind) if field.default is not MISSING}


def required_fields(kind: Any) -> list[str]:  # noqa: ANN401 - a record's class
    """The names of the fields without a default."""
    if not is_dataclass(kind):
        return [name for name in field_names(kind) if name not in kind._field_defaults]
    return [field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING]


def _version_reader(kind: Any) -> _Reader:  # noqa: ANN401 - a class with parse
    parse = lru_cache(maxsize=4096)(kind.parse)  # a matrix and a snapshot name the same versions again and again

    def read(data: Any) -> object:  # noqa: ANN401 - a plain value
        if not isinstance(data, str):
            raise _error("text", data)
        try:
            return parse(data)
        except ValueError as error:
            raise DecodeError("", str(error)) from error

    return read


def _enum_reader(kind: type[Enum]) -> _Reader:
    def read(data: Any) -> Enum:  # noqa: ANN401 - a plain value
        try:
            return kind(data)
        except ValueError:
            raise _error("one of " + ", ".join(str(member.value) for member in kind), data) from None

    return read


def _text(data: Any) -> str:  # noqa: ANN401 - a plain value
    if not isinstance(data, str):
        raise _error("text", data)
    return data


def _scalar_reader(kind: Any, form: Form) -> _Reader:  # noqa: ANN401 - int, float or bool
    accepted = (int, float) if kind is float else (kind,)

    def read(data: Any) -> object:  # noqa: ANN401 - a plain value
        is_text = isinstance(data, str) and (form is Form.TEXTS or (form is Form.WRITTEN and kind is float))
        value = _from_text(kind, data) if is_text else data
        # JSON has no infinity and no NaN, and other readers of it than Python have no larger numbers.
        if not isinstance(value, accepted) or (
            kind is not bool and (isinstance(value, bool) or not abs(value) <= _LARGEST[kind])
        ):
            raise _error(_NAMES[kind], data)
        return kind(value)

    return read


def _from_text(kind: Any, data: str) -> object:  # noqa: ANN401 - int, float or bool
    if kind is bool:
        return {"true": True, "false": False}.get(data)
    try:
        return kind(data)
    except ValueError:
        return None


def _within(step: str, error: DecodeError) -> DecodeError:
    """The error as the record around it sees it."""
    return DecodeError(step + error.steps, error.problem)


def _error(expected: str, data: object) -> DecodeError:
    return DecodeError("", f"expected {expected}, found {cut_text(repr(data), 60)}")
