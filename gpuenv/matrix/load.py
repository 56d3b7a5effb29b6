"""Loads and validates ``matrix.yaml``; reports every fault with its line.

The build compiles the shipped matrix to JSON (``hatch_build.py``), because strict YAML takes 0.36 s to read and the
JSON 0.01 s. The JSON has the checksum of its YAML and is used for that file only.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from gpuenv.files import TooLargeError, read_at_most
from gpuenv.matrix.tables import SCHEMA, Matrix
from gpuenv.matrix.validate import MatrixError, MatrixFault, faults
from gpuenv.model.codec import DecodeError, decode, encode, is_record

_MAX_BYTES = 8 * 1024 * 1024  # as in strict_yaml
_MAX_FAULTS = 50  # reported faults of form


def load(path: Path, *, compiled: Path | None = None) -> Matrix:
    """Reads and validates a matrix.

    Args:
        path: the YAML file.
        compiled: JSON to read instead if it was compiled from the same bytes.

    Raises:
        MatrixError: with every fault found.
        OSError, UnicodeDecodeError: the file cannot be read.
    """
    try:
        data = read_at_most(path, _MAX_BYTES)
    except TooLargeError as error:
        raise MatrixError([f"{path}: line 1: larger than {_MAX_BYTES} bytes, the limit of a matrix"]) from error
    matrix = _read_compiled(compiled, data) if compiled else None
    return matrix or parse(data.decode("utf-8").replace("\r\n", "\n"), str(path))


def compile_matrix(data: bytes, name: str) -> str:
    """Returns the JSON of a matrix with the checksum (CRC-32) of its YAML.

    Raises:
        MatrixError: with every fault found.
    """
    matrix = parse(data.decode("utf-8"), name)
    return json.dumps({"crc32": zlib.crc32(data), "matrix": encode(matrix)}, separators=(",", ":"))


def _read_compiled(path: Path, data: bytes) -> Matrix | None:
    """Returns the matrix compiled from this YAML, if any."""
    try:
        compiled = json.loads(path.read_bytes())
        if compiled["crc32"] == zlib.crc32(data):
            return decode(Matrix, compiled["matrix"])
    except (OSError, ValueError, KeyError, TypeError):  # missing, or built by another release
        pass
    return None


def parse(text: str, name: str) -> Matrix:
    """Parses a matrix; ``name`` identifies it in messages.

    Raises:
        MatrixError: with every fault found.
    """
    from gpuenv.matrix import strict_yaml  # noqa: PLC0415 - the compiled matrix needs no YAML, which takes 10 ms

    try:
        document = strict_yaml.parse(text)
    except strict_yaml.YamlError as error:
        raise MatrixError([f"{name}: {problem}" for problem in error.problems]) from error
    data = document.value
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise MatrixError([f"{name}: line 1: expected a matrix with schema: {SCHEMA}"])
    try:
        matrix = decode(Matrix, data, texts=True)
    except DecodeError as error:
        texts = list(dict.fromkeys(_form_faults(Matrix, data, "")))[:_MAX_FAULTS] or [str(error)]
        raise MatrixError([_located(name, document.lines, text.split(":", 1)[0], text) for text in texts]) from error
    found = list(_described(faults(matrix), name, document.lines))
    if found:
        raise MatrixError(found)
    return matrix


def _form_faults(kind: Any, data: object, path: str) -> Iterator[str]:  # noqa: ANN401 - a type hint
    """Yields every malformed part of a record; reads each part separately, the innermost first."""
    found = [text for key, hint, value in _parts(kind, data) for text in _form_faults(hint, value, path + key)]
    if found:
        yield from found
        return
    try:
        decode(kind, data, texts=True)
    except DecodeError as error:
        dot = "." if error.path and not error.path.startswith("[") else ""
        yield f"{path}{dot}{error.path}: {error.problem}".lstrip(".: ")


def _parts(kind: Any, data: object) -> Iterator[tuple[str, Any, object]]:  # noqa: ANN401 - a type hint
    """Yields path, type hint and value of each part of a container of records."""
    kind = next((option for option in get_args(kind) if option is not type(None)), kind) if _is_optional(kind) else kind
    origin, args = get_origin(kind), get_args(kind)
    if origin is tuple and isinstance(data, list):
        yield from ((f"[{number}]", args[0], value) for number, value in enumerate(data))
    elif isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(data, dict):
        yield from ((f".{key}", args[1], value) for key, value in data.items())
    elif is_record(kind) and not hasattr(kind, "parse") and isinstance(data, dict):
        hints = get_type_hints(kind)
        yield from ((f".{key}", hints[key], value) for key, value in data.items() if key in hints)


def _is_optional(kind: Any) -> bool:  # noqa: ANN401 - a type hint
    return type(None) in get_args(kind)


def _described(found: Iterable[MatrixFault], name: str, lines: dict[str, int]) -> Iterator[str]:
    for fault in found:
        yield _located(name, lines, fault.path, f"{fault.path}: {fault.text}")


def _located(name: str, lines: dict[str, int], path: str, text: str) -> str:
    """Prefixes a fault with the line of the innermost part of its path that has one."""
    previous = None
    while path not in lines and path != previous:
        previous, path = path, re.sub(r"(\.[^.\[]*|\[\d+\])$|^[^.\[]*$", "", path)
    return f"{name}: line {lines.get(path, 1)}: {text}"
