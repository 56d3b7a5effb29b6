"""Loads and validates a matrix in YAML, or in JSON as it is published; reports every fault with its line.

A file without GPU products, peaks or measured binaries gets those in ``gpuenv/data``. The build compiles the shipped
matrix to JSON (``hatch_build.py``), which takes a tenth of the time to read. The JSON has the checksum of the files
that it was compiled from and is used for those only.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from gpuenv.data import DATA
from gpuenv.files import TooLargeError, read_at_most
from gpuenv.matrix.csv_tables import CsvTableError, file_names, read_tables
from gpuenv.matrix.tables import SCHEMA, Matrix
from gpuenv.matrix.validate import MatrixError, faults
from gpuenv.model.codec import DecodeError, Form, decode, encode, is_record
from gpuenv.model.json_lines import line_of
from gpuenv.model.strings import decode_text

MAX_BYTES = 8 * 1024 * 1024  # as in strict_yaml
_MAX_FAULTS = 50  # reported faults of form


def load(path: Path, *, compiled: Path | None = None, validated: int | None = None) -> Matrix:
    """Reads and validates a matrix.

    Args:
        path: the file, in YAML or JSON.
        compiled: JSON to read instead if it was compiled from the same bytes.
        validated: the CRC-32 of JSON that was validated when it was stored; only its form is checked again.

    Raises:
        MatrixError: with every fault found.
        OSError, UnicodeDecodeError: the file cannot be read.
    """
    try:
        data = read_at_most(path, MAX_BYTES)
    except TooLargeError as error:
        raise MatrixError([f"{path}: line 1: larger than {MAX_BYTES} bytes, the limit of a matrix"]) from error
    matrix = _read_compiled(compiled, _checksum(data)) if compiled else None
    return matrix or read(data, str(path), validated=zlib.crc32(data) == validated)


def read(data: bytes, name: str, *, validated: bool = False) -> Matrix:
    """Reads the content of a matrix file: JSON or YAML, by its first character.

    Raises:
        MatrixError: with every fault found.
        UnicodeDecodeError: for content that is not text.
    """
    text = decode_text(data)
    return _parse_json(text, name, validated=validated) if is_json(text) else parse(text, name)


def is_json(text: str) -> bool:
    """Whether a matrix is in JSON, as it is published."""
    return text.lstrip().startswith("{")


def compile_matrix(data: bytes, name: str) -> str:
    """Returns the JSON of a matrix with the checksum of its files.

    Raises:
        MatrixError: with every fault found.
    """
    matrix = parse(data.decode("utf-8"), name)
    return json.dumps({"crc32": _checksum(data), "matrix": encode(matrix)}, separators=(",", ":"))


def _checksum(data: bytes) -> int:
    """The CRC-32 of a matrix and of its CSV tables."""
    return zlib.crc32(b"".join((data, *_csv_files().values())))


def _csv_files() -> dict[str, bytes]:
    return {name: (DATA / name).read_bytes() for name in file_names()}


def _read_compiled(path: Path, checksum: int) -> Matrix | None:
    """Returns the matrix compiled from these files, if any."""
    try:
        compiled = json.loads(path.read_bytes())
        if compiled["crc32"] == checksum:
            return decode(Matrix, compiled["matrix"])
    except (OSError, ValueError, KeyError, TypeError):  # missing, or built by another release
        pass
    return None


def _parse_json(text: str, name: str, *, validated: bool) -> Matrix:
    """Parses JSON as ``gpuenv matrix show --format json`` prints it; ignores the keys that later releases add."""
    try:
        data = json.loads(text, object_pairs_hook=None if validated else _unique_keys)
    except json.JSONDecodeError as error:
        raise MatrixError([f"{name}: line {error.lineno}: {error.msg}"]) from error
    except (ValueError, RecursionError) as error:  # a huge number, deep nesting
        raise MatrixError([f"{name}: line 1: {error}"]) from error
    if (found := data.get("schema")) != SCHEMA:
        raise MatrixError([f"{name}: line 1: expected a matrix with schema: {SCHEMA}, found {found!r:.40}"])
    try:
        matrix = decode(Matrix, data)
    except DecodeError as error:
        raise MatrixError([f"{name}: line {line_of(text, error.path) or 1}: {error}"]) from error
    problems = [] if validated else list(faults(matrix))
    if problems:
        lines = ((fault, line_of(text, fault.path) or 1) for fault in problems[:_MAX_FAULTS])
        raise MatrixError([f"{name}: line {line}: {fault.path}: {fault.text}" for fault, line in lines])
    return matrix


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, whose keys are unique."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice in one object")
    return found


def parse(text: str, name: str) -> Matrix:
    """Parses a matrix in YAML; ``name`` identifies it in messages.

    Raises:
        MatrixError: with every fault found.
    """
    values, lines = read_values(text, name)
    return to_matrix(values, name, lines)


def read_values(text: str, name: str, *, typed: bool = True) -> tuple[dict[str, Any], dict[str, int]]:
    """Returns the plain values of a matrix by table, and the first line of each path (``cuda_minors[3].ptx``).

    Without ``typed``, every value is read as text, also what is not quoted as it must be.

    Raises:
        MatrixError: it is no strict YAML, or has another schema.
    """
    from gpuenv.matrix import strict_yaml  # noqa: PLC0415 - the compiled matrix needs no YAML, which takes 10 ms

    try:
        document = strict_yaml.parse(text, typed=typed)
    except strict_yaml.YamlError as error:
        raise MatrixError([f"{name}: {problem}" for problem in error.problems]) from error
    if not isinstance(document.value, dict) or document.value.get("schema") != SCHEMA:
        raise MatrixError([f"{name}: line 1: expected a matrix with schema: {SCHEMA}"])
    return document.value, document.lines


def to_matrix(values: Mapping[str, Any], name: str, lines: Mapping[str, int], *, texts: bool = False) -> Matrix:
    """Completes the plain values of a matrix with the tables that they lack, and validates it.

    ``lines`` has the first line of each path; ``texts``: whether numbers and truth values are given as text.

    Raises:
        MatrixError: with every fault found.
    """
    try:
        tables, lines_of_tables = read_tables(_csv_files())
    except CsvTableError as error:
        raise MatrixError([str(error)]) from error
    sources = values.get("sources")
    data = {**tables, **values}
    if isinstance(sources, dict):
        data["sources"] = {**tables["sources"], **sources}
    places = {**lines_of_tables, **{path: (name, line) for path, line in lines.items()}}
    form = Form.TEXTS if texts else Form.WRITTEN
    try:
        matrix = decode(Matrix, data, form)
    except DecodeError as error:
        found = list(dict.fromkeys(_form_faults(Matrix, data, "", form)))[:_MAX_FAULTS] or [str(error)]
        raise MatrixError([_located(name, places, text.split(":", 1)[0], text) for text in found]) from error
    contradictions = [_located(name, places, fault.path, f"{fault.path}: {fault.text}") for fault in faults(matrix)]
    if contradictions:
        raise MatrixError(contradictions)
    return matrix


def _form_faults(kind: Any, data: object, path: str, form: Form) -> Iterator[str]:  # noqa: ANN401 - a type hint
    """Yields every malformed part of a record; reads each part separately, the innermost first."""
    parts = _parts(kind, data)
    found = [text for key, hint, value in parts for text in _form_faults(hint, value, path + key, form)]
    if found:
        yield from found
        return
    try:
        decode(kind, data, form)
    except DecodeError as error:
        dot = "." if error.path and not error.path.startswith("[") else ""
        yield f"{path}{dot}{error.path}: {error.problem}".lstrip(".: ")


def _parts(kind: Any, data: object) -> Iterator[tuple[str, Any, object]]:  # noqa: ANN401 - a type hint
    """Yields path, type hint and value of each part of a container of records."""
    if type(None) in get_args(kind):
        kind = next(option for option in get_args(kind) if option is not type(None))
    origin, args = get_origin(kind), get_args(kind)
    if origin is tuple and isinstance(data, list):
        yield from ((f"[{number}]", args[0], value) for number, value in enumerate(data))
    elif isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(data, dict):
        yield from ((f".{key}", args[1], value) for key, value in data.items())
    elif is_record(kind) and not hasattr(kind, "parse") and isinstance(data, dict):
        hints = get_type_hints(kind)
        yield from ((f".{key}", hints[key], value) for key, value in data.items() if key in hints)


def _located(name: str, places: Mapping[str, tuple[str, int]], path: str, text: str) -> str:
    """Prefixes a fault with the file and line of the innermost part of its path that has one."""
    previous = None
    while path not in places and path != previous:
        previous, path = path, re.sub(r"(\.[^.\[]*|\[\d+\])$|^[^.\[]*$", "", path)
    file, line = places.get(path, (name, 1))
    return f"{file}: line {line}: {text}"
