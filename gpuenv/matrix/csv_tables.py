"""Tables of the matrix that are CSV files: GPU products, their peaks, names of base images, and sources.

One row is one line; the texts of a list are separated by ``; ``. A source has a line for each of its files; the
first one is cited.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin, get_type_hints

from packaging.version import InvalidVersion, Version

from gpuenv.matrix.tables import AmdProduct, BaseImageRule, MatrixSource, Peak, Product

TABLES = {
    "products": Product,
    "older_products": Product,
    "amd_products": AmdProduct,
    "peaks": Peak,
    "base_images": BaseImageRule,
}
SOURCES = "sources.csv"
_SEPARATOR = "; "
_COLUMNS = ("key", "kind", "seen", "file", "sha256", "title", "section", "note")


class CsvTableError(ValueError):
    """A table that cannot be read."""


def file_names() -> tuple[str, ...]:
    """The names of the files."""
    return (*(f"{name}.csv" for name in TABLES), SOURCES)


def read_tables(files: Mapping[str, bytes]) -> tuple[dict[str, Any], dict[str, tuple[str, int]]]:
    """Reads the content of all files by their names.

    Returns the plain values by table, and the file and line of each row by its path (``products[3]``).

    Raises:
        CsvTableError: a file has other columns, or a line has another number of them.
    """
    values: dict[str, Any] = {}
    lines: dict[str, tuple[str, int]] = {}
    for name, kind in TABLES.items():
        file, hints = f"{name}.csv", get_type_hints(kind)
        values[name] = []
        for line, row in _rows(file, files[file], tuple(hints)):
            lines[f"{name}[{len(values[name])}]"] = (file, line)
            try:
                values[name].append({key: _value(hints[key], text) for key, text in row.items() if text})
            except ValueError as error:
                raise CsvTableError(f"{file}: line {line}: {error}") from error
    values["sources"] = {}
    for line, row in _rows(SOURCES, files[SOURCES], _COLUMNS):
        key = row.pop("key")
        if key in values["sources"]:
            values["sources"][key].setdefault("also", {})[row["file"]] = row["sha256"]
        else:
            lines[f"sources.{key}"] = (SOURCES, line)
            values["sources"][key] = {name: text for name, text in row.items() if text}
    return values, lines


def _rows(file: str, content: bytes, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields the rows with their lines."""
    reader = csv.DictReader(io.StringIO(content.decode("utf-8"), newline=""), strict=True)
    try:
        if tuple(reader.fieldnames or ()) != columns:
            raise CsvTableError(f"{file}: line 1: expected the columns {', '.join(columns)}")
        for row in reader:
            if None in row or None in row.values():
                raise CsvTableError(f"{file}: line {reader.line_num}: expected {len(columns)} columns")
            yield reader.line_num, row
    except csv.Error as error:
        raise CsvTableError(f"{file}: line {reader.line_num}: {error}") from error


def _value(hint: Any, text: str) -> object:  # noqa: ANN401 - a type hint
    if get_origin(hint) is tuple:
        return text.split(_SEPARATOR)
    return float(text) if float in (hint, *get_args(hint)) else text


def sources_text(sources: Mapping[str, MatrixSource]) -> str:
    """Formats sources, sorted by their keys and versions."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for key in sorted(sources, key=_sort_key):
        source = sources[key]
        texts = {name: getattr(source, name) for name in _COLUMNS[2:]}
        writer.writerow({"key": key, "kind": source.kind.value, **texts})
        writer.writerows({"key": key, "file": file, "sha256": digest} for file, digest in source.also.items())
    return out.getvalue()


def _sort_key(key: str) -> tuple[str, Version]:
    """The name of what was measured, and its version: ``cupy-cuda12x-14.2.0``."""
    name, _, version = key.rpartition("-")
    try:
        return name, Version(version)
    except InvalidVersion:
        return key, Version("0")
