"""Derives the JSON Schema of a record from its type hints; describes the output of ``codec.encode``."""

from __future__ import annotations

import types
from collections.abc import Mapping
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

from gpuenv.model.codec import field_names, is_record

_SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean"}


def json_schema(kind: type, name: str) -> dict[str, Any]:
    """A JSON Schema (2020-12) for a record; ``name`` is the value of its key ``schema``.

    Keys that it does not know are allowed, since later releases add some.
    """
    definitions: dict[str, Any] = {}
    body = _schema(kind, {}, definitions)
    root = dict(definitions.pop(body["$ref"].removeprefix("#/$defs/")))
    root["properties"] = {**root["properties"], "schema": {"const": name}}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name, **root, "$defs": definitions}


def _schema(kind: Any, bound: Mapping[Any, Any], definitions: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401, PLR0911 - a type hint; one return a form
    kind = bound.get(kind, kind)
    origin = get_origin(kind)
    if kind is type(None):
        return {"type": "null"}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(option, bound, definitions) for option in get_args(kind)]}
    if origin is tuple:
        return {"type": "array", "items": _schema(get_args(kind)[0], bound, definitions)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(get_args(kind)[1], bound, definitions)}
    if is_record(origin or kind):
        return _record(kind, bound, definitions)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    return {"type": _SCALARS[kind]}


def _label(kind: Any) -> str:  # noqa: ANN401 - a type hint
    """Returns a name for a type hint that distinguishes tuples of different types."""
    inner = [_label(argument) for argument in get_args(kind) if argument is not Ellipsis]
    return "_".join([getattr(get_origin(kind) or kind, "__name__", "any"), *inner])


def _record(kind: Any, bound: Mapping[Any, Any], definitions: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - a type hint
    origin = get_origin(kind) or kind
    if hasattr(origin, "parse"):
        return {"type": "string"}
    parameters = getattr(origin, "__parameters__", ())
    arguments = [bound.get(argument, argument) for argument in get_args(kind)]
    name = "_".join([origin.__name__, *map(_label, arguments)])
    if name not in definitions:
        definitions[name] = {}  # ends the recursion of a record that contains itself
        hints = get_type_hints(origin)
        fields = list(field_names(origin))
        inner = dict(zip(parameters, arguments, strict=False))
        properties = {field: _schema(hints[field], inner, definitions) for field in fields}
        definitions[name] = {"type": "object", "properties": properties, "required": fields}
    return {"$ref": f"#/$defs/{name}"}
