"""The canonical form of ``matrix.yaml``, so that a change of one fact is a change of one line.

A row, or a part of it, that has no mapping within stands on one line if it fits; else each of its keys begins a line.
Keys are in the order of the record's fields, its sources last; a value that equals the field's default is left out.
Comments stand above a table or one of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, TypeAlias

import yaml

from gpuenv.matrix.load import read_values, to_matrix
from gpuenv.matrix.tables import Matrix
from gpuenv.model.codec import field_defaults, field_names, is_record

WIDTH = 120
_TABLES = (
    *("driver_branches", "cuda_majors", "cuda_minors", "generations", "wheel_lines", "rocm_lines", "conda_builds"),
    *("images", "ngc_releases", "companions", "advisories", "peaks", "products", "older_products", "sources"),
)
_SOURCES = ("source", "driver_source", "state_source")
Comments: TypeAlias = "Mapping[tuple[str, str], Sequence[str]]"  # by table, and the first value of a row or nothing


def format_matrix(text: str, name: str) -> str:
    """Returns the text of a matrix in canonical form; its tables beside it are not included.

    Reads also values that are not quoted as they must be.

    Raises:
        MatrixError: it is invalid.
    """
    values, lines = read_values(text, name, typed=False)
    return matrix_text(to_matrix(values, name, lines, texts=True), values, comments_in(text, values, lines))


def matrix_text(matrix: Matrix, written: Mapping[str, Any], comments: Comments) -> str:
    """Formats the tables and sources of a matrix that are in a file.

    Args:
        matrix: the complete matrix.
        written: the plain values of the file.
        comments: the comments of the file.
    """
    comments = dict(comments)
    lines = [*comments.get(("schema", ""), ()), f"schema: {matrix.schema}"]
    lines += [*comments.get(("revision", ""), ()), f"revision: {_scalar(matrix.revision)}"]
    for table in _TABLES:
        if table not in written:
            continue
        rows: Any = _plain(getattr(matrix, table))
        if isinstance(rows, dict):
            rows = {key: value for key, value in rows.items() if key in written[table]}
        lines += ["", *comments.get((table, ""), ())]
        if not rows:
            lines.append(f"{table}: {_flow(rows)}")
            continue
        lines.append(f"{table}:")
        keyed = rows.items() if isinstance(rows, dict) else ((str(next(iter(row.values()))), row) for row in rows)
        for key, value in keyed:
            above, comments[table, key] = comments.get((table, key), ()), ()
            lines += [f"  {comment}" for comment in above]
            lines += _keyed(key, value, "  ") if isinstance(rows, dict) else _item(value, "  ")
    return "\n".join(lines) + "\n"


def comments_in(text: str, values: Mapping[str, Any], lines: Mapping[str, int]) -> dict[tuple[str, str], list[str]]:
    """Returns the comments: those on lines of their own with the table or row that comes next, others with theirs."""
    starts = sorted(((line, path) for path, line in lines.items() if path.count(".") <= 1), reverse=True)
    found: dict[tuple[str, str], list[str]] = {}
    above: list[str] = []
    current = ("schema", "")
    for number, (line, column) in enumerate(zip(text.splitlines(), _ends(text), strict=True), 1):
        while starts and starts[-1][0] <= number:
            start, path = starts.pop()
            place = _place(path, values) if start == number else None
            if place is not None and place not in found:
                current, found[place], above = place, above, []
        comment = line[column:].strip()
        if comment.startswith("#"):
            (found.setdefault(current, []) if column else above).append(comment)
    found.setdefault(current, []).extend(above)
    return found


def _ends(text: str) -> list[int]:
    """Returns the column at which the YAML of each line ends, before a comment."""
    lines = text.splitlines()
    ends = [0] * len(lines)
    for token in yaml.scan(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(token, yaml.StreamStartToken | yaml.StreamEndToken | yaml.BlockEndToken):
            continue
        first, last = token.start_mark.line, token.end_mark.line
        for number in range(first, last):
            ends[number] = len(lines[number])
        if last < len(lines):
            ends[last] = max(ends[last], token.end_mark.column)
    return ends


def _place(path: str, values: Mapping[str, Any]) -> tuple[str, str] | None:
    """The table and row of a path; None for a part of a row."""
    table, _, rest = path.partition("[")
    if not rest:
        table, _, key = path.partition(".")
        return (table, key) if table else None
    number, _, part = rest.partition("]")
    row = values[table][int(number)]
    return None if part or not isinstance(row, dict) else (table, str(next(iter(row.values()), "")))


def _plain(value: object) -> Any:  # noqa: ANN401 - plain values of YAML
    """A record as mappings, lists and scalars; leaves out defaults."""
    kind: Any = type(value)
    if isinstance(value, Enum):
        return value.value
    if is_record(kind) and not hasattr(kind, "parse"):
        defaults = field_defaults(kind)
        names = sorted(field_names(kind), key=lambda name: name in _SOURCES)
        fields = {name: getattr(value, name) for name in names}
        return {name: _plain(item) for name, item in fields.items() if name not in defaults or item != defaults[name]}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple) and not is_record(kind):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _item(value: Any, indent: str) -> Iterator[str]:  # noqa: ANN401 - plain values of YAML
    """Yields the lines of an item of a list."""
    if _is_leaf(value) and len(line := f"{indent}- {_flow(value)}") <= WIDTH:
        yield line
    else:
        first, *others = (line for key, part in value.items() for line in _keyed(key, part, f"{indent}  "))
        yield f"{indent}- {first.lstrip()}"
        yield from others


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
    elif isinstance(value, list):
        yield name
        yield from (line for item in value for line in _item(item, f"{indent}  "))
    elif str(value).split() == str(value).split(" "):
        yield f"{name} >-"
        yield from _filled(f"{indent}  ", str(value).split(" "), f"{indent}  ", " ", "")
    else:
        yield f"{name} {_scalar(value)}"


def _is_leaf(value: Any) -> bool:  # noqa: ANN401 - plain values of YAML
    """Whether a value has no mapping within."""
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


@lru_cache(maxsize=4096)
def _scalar(value: object) -> str:
    """A scalar as YAML writes it within brackets, quoted if it does not begin with a letter."""
    text = str(yaml.safe_dump([value], default_flow_style=True, allow_unicode=True, width=float("inf")))[1:-2]
    return f"'{text}'" if isinstance(value, str) and text == value and not value[:1].isalpha() else text
