"""The canonical form of ``matrix.yaml``, so that a change of one fact is a change of one line.

A row, or a part of it, without a nested mapping is one line if it fits; else each of its keys begins a line.
Keys are in the order of the record's fields, its sources last; a value that equals the field's default is left out.
Comments are above a table, a row or a release.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any

import yaml

from gpuenv.matrix.load import read_values, to_matrix
from gpuenv.matrix.tables import SOURCE_KEYS, Matrix
from gpuenv.matrix.validate import MatrixError
from gpuenv.model.codec import field_defaults, field_names, is_record

WIDTH = 120
_TABLES = (
    *("driver_branches", "cuda_majors", "cuda_minors", "generations", "wheel_lines", "rocm_lines", "conda_builds"),
    *("images", "ngc_releases", "base_images", "companions", "advisories", "peaks", "products", "older_products"),
    *("amd_products", "sources"),
)
_BLOCK_SCALAR = re.compile(r"[>|][-+\d]*")
# By the name of a table, or the identity of a row among the plain values.
Comments = Mapping[str | int, Sequence[str]]


def format_matrix(text: str, name: str) -> str:
    """Returns the text of a matrix in canonical form; the CSV tables are not included.

    Reads also values that are not quoted as they must be.

    Raises:
        MatrixError: it is invalid.
    """
    text = text.replace("\r\n", "\n")
    values, lines = read_values(text, name, typed=False)
    return matrix_text(to_matrix(values, name, lines, texts=True), values, comments_in(text, values, lines))


def matrix_text(matrix: Matrix, written: Mapping[str, Any], comments: Comments) -> str:
    """Formats the tables and sources of a matrix that are in a file, whose plain values are ``written``.

    Raises:
        MatrixError: the text would not give the same values.
    """
    left = dict(comments)
    values: dict[str, Any] = {"schema": matrix.schema, "revision": matrix.revision}
    lines = [line for key, value in values.items() for line in (*left.pop(key, ()), f"{key}: {_scalar(value)}")]
    for table in _TABLES:
        if table not in written:
            continue
        rows, raw = _plain(getattr(matrix, table)), written[table] or ()
        if isinstance(rows, dict):
            rows = {key: value for key, value in rows.items() if key in raw}
        values[table] = rows
        lines += ["", *left.pop(table, ()), f"{table}:" if rows else f"{table}: {_flow(rows)}"]
        if isinstance(rows, dict):
            for key, value in rows.items():
                lines += [*_above(raw[key], left, "  "), *_keyed(key, value, "  ")]
        else:
            lines += _list(rows, raw, "  ", left)
    lines += [comment for found in left.values() for comment in found]
    text = "\n".join(lines) + "\n"
    if read_values(text, "the new text")[0] != values:
        raise MatrixError(["the matrix has a text that cannot be written in canonical form"])
    return text


def comments_in(text: str, values: Mapping[str, Any], lines: Mapping[str, int]) -> dict[str | int, list[str]]:
    """Returns the comments: those above a table or a row with it, others with the row that they are in."""
    owners = {lines[path]: owner for path, owner in reversed(list(_owners(values))) if path in lines}
    innermost = {lines[path]: owner for path, owner in _owners(values) if path in lines}
    starts = sorted(set(lines.values()))
    found: dict[str | int, list[str]] = {}
    for number, (line, column) in enumerate(zip(text.split("\n"), _ends(text), strict=True), 1):
        comment = line[column:].strip()
        if comment.startswith("#"):
            following = next((start for start in starts if start > number), None)
            before = max((start for start in innermost if start <= number), default=None)
            is_above = not line[:column].strip() and (following in owners or before is None)
            owner = owners.get(following or 0, "schema") if is_above else innermost[before or 0]
            found.setdefault(owner, []).append(comment)
    return found


def _owners(values: Mapping[str, Any]) -> Iterator[tuple[str, str | int]]:
    """Yields the path of every table, row and release, with the key of its comments."""
    for table, rows in values.items():
        yield table, table
        if isinstance(rows, dict):
            yield from ((f"{table}.{key}", id(row)) for key, row in rows.items())
        for number, row in enumerate(rows if isinstance(rows, list) else ()):
            yield f"{table}[{number}]", id(row)
            for index, release in enumerate(row.get("releases") or ()):
                yield f"{table}[{number}].releases[{index}]", id(release)


def _ends(text: str) -> list[int]:
    """Returns the column at which the YAML of each line ends, before a comment."""
    lines = text.split("\n")
    ends = [0] * len(lines)
    for token in yaml.scan(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(token, yaml.StreamStartToken | yaml.StreamEndToken | yaml.BlockEndToken):
            continue
        first, last = token.start_mark.line, token.end_mark.line
        header = _BLOCK_SCALAR.match(lines[first], token.start_mark.column)
        is_block = isinstance(token, yaml.ScalarToken) and token.style in (">", "|") and header
        for number in range(first, last):
            ends[number] = header.end() if header and is_block and number == first else len(lines[number])
        if last < len(lines):
            ends[last] = max(ends[last], token.end_mark.column)
    return ends


def _plain(value: object) -> Any:  # noqa: ANN401 - plain values of YAML
    """A record as mappings, lists and scalars; leaves out defaults."""
    kind: Any = type(value)
    if isinstance(value, Enum):
        return value.value
    if is_record(kind) and not hasattr(kind, "parse"):
        defaults = field_defaults(kind)
        names = sorted(field_names(kind), key=lambda name: name in SOURCE_KEYS)
        fields = {name: getattr(value, name) for name in names}
        return {name: _plain(item) for name, item in fields.items() if name not in defaults or item != defaults[name]}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple) and not is_record(kind):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, str | int) else str(value)


def _above(row: object, left: dict[str | int, Sequence[str]], indent: str) -> Iterator[str]:
    """Yields the comments of a row."""
    yield from (f"{indent}{comment}" for comment in left.pop(id(row), ()))


def _list(rows: Any, raw: Any, indent: str, left: dict[str | int, Sequence[str]]) -> Iterator[str]:  # noqa: ANN401 - plain values
    """Yields the lines of a list of mappings; ``raw`` has the same rows as they were written."""
    for row, before in zip(rows, raw, strict=True):
        yield from _above(before, left, indent)
        if _is_leaf(row) and len(line := f"{indent}- {_flow(row)}") <= WIDTH:
            yield line
            continue
        inner = f"{indent}  "
        parts = [
            line
            for key, value in row.items()
            for line in (
                (f"{inner}releases:", *_list(value, before[key], f"{inner}  ", left))
                if key == "releases" and value
                else _keyed(key, value, inner)
            )
        ]
        yield f"{indent}- {parts[0].lstrip()}"
        yield from parts[1:]


def _keyed(key: str, value: Any, indent: str) -> Iterator[str]:  # noqa: ANN401 - plain values of YAML
    """Yields the lines of a key and its value."""
    name = f"{indent}{_scalar(key)}:"
    if _is_leaf(value) and len(line := f"{name} {_flow(value)}") <= WIDTH:
        yield line
    elif isinstance(value, dict):
        yield name
        yield from (line for part, item in value.items() for line in _keyed(part, item, f"{indent}  "))
    elif isinstance(value, list) and _is_leaf(value):
        yield from _filled(f"{name} [", [_scalar(item) for item in value], f"{indent}  ", ", ", "]")
    elif str(value).split() == str(value).split(" ") and str(value).isprintable():
        yield f"{name} >-"
        yield from _filled(f"{indent}  ", str(value).split(" "), f"{indent}  ", " ", "")
    else:
        yield f"{name} {_scalar(value)}"


def _is_leaf(value: Any) -> bool:  # noqa: ANN401 - plain values of YAML
    """Whether a value contains no mapping."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return not any(isinstance(part, dict) or not _is_leaf(part) for part in parts)


def _filled(start: str, words: Iterable[str], indent: str, separator: str, end: str) -> Iterator[str]:
    """Yields lines with as many words as fit."""
    line, is_first = start, True
    for word in words:
        if not is_first and len(f"{line}{separator}{word}{end or separator}") > WIDTH:
            yield f"{line}{separator}".rstrip()
            line, is_first = indent, True
        line += word if is_first else f"{separator}{word}"
        is_first = False
    yield f"{line}{end}"


def _flow(value: Any) -> str:  # noqa: ANN401 - plain values of YAML
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


@lru_cache(maxsize=4096, typed=True)
def _scalar(value: object) -> str:
    """A scalar as YAML writes it within brackets, quoted if it does not begin with a letter."""
    text = str(yaml.safe_dump([value], default_flow_style=True, allow_unicode=True, width=float("inf")))[1:-2]
    is_bare = isinstance(value, str) and text == value
    return "'" + text.replace("'", "''") + "'" if is_bare and not text[:1].isalpha() else text
