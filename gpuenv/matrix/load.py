"""Reads and validates ``matrix.yaml``: every fault is reported, each with its line.

The shipped matrix is compiled to JSON when gpuenv is built (``hatch_build.py``), since strict YAML takes 0.36 s to read
and the same JSON 0.01 s. The JSON names the checksum of the YAML that it was made of, and is used for that one only.
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

_LARGEST = 8 * 1024 * 1024  # bytes, as strict_yaml has it
_MOST = 50  # faults of form that are told; nobody reads more


def load(path: Path, *, compiled: Path | None = None) -> Matrix:
    """Reads a matrix and holds it against its own rules.

    Args:
        path: the YAML file.
        compiled: the JSON that is read instead if it was made of the same bytes.

    Raises:
        MatrixError: with every fault found.
        OSError, UnicodeDecodeError: when the file cannot be read.
    """
    try:
        data = read_at_most(path, _LARGEST)
    except TooLargeError as error:
        raise MatrixError([f"{path}: line 1: larger than the {_LARGEST} bytes that a matrix may have"]) from error
    matrix = _read_compiled(compiled, data) if compiled else None
    return matrix or parse(data.decode("utf-8").replace("\r\n", "\n"), str(path))


def compile_matrix(data: bytes, name: str) -> str:
    """The JSON of a matrix, with the checksum (CRC-32) of its YAML.

    Raises:
        MatrixError: with every fault found.
    """
    matrix = parse(data.decode("utf-8"), name)
    return json.dumps({"crc32": zlib.crc32(data), "matrix": encode(matrix)}, separators=(",", ":"))


def _read_compiled(path: Path, data: bytes) -> Matrix | None:
    """The matrix that was compiled from this YAML, if there is one."""
    try:
        compiled = json.loads(path.read_bytes())
        if compiled["crc32"] == zlib.crc32(data):
            return decode(Matrix, compiled["matrix"])
    except (OSError, ValueError, KeyError, TypeError):  # not built, or by another release
        pass
    return None


def parse(text: str, name: str) -> Matrix:
    """The matrix in a text; ``name`` stands for it in messages.

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
        told = list(dict.fromkeys(_form_faults(Matrix, data, "")))[:_MOST] or [str(error)]
        raise MatrixError([_located(name, document.lines, text.split(":", 1)[0], text) for text in told]) from error
    found = list(_described(faults(matrix), name, document.lines))
    if found:
        raise MatrixError(found)
    return matrix


def _form_faults(kind: Any, data: object, path: str) -> Iterator[str]:  # noqa: ANN401 - a type hint
    """Every part of a record that has not its form: each is read by itself, the innermost ones first."""
    found = [text for key, hint, value in _parts(kind, data) for text in _form_faults(hint, value, path + key)]
    if found:
        yield from found
        return
    try:
        decode(kind, data, texts=True)
    except DecodeError as error:
        dot = "." if error.path and not error.path.startswith("[") else ""
        yield f"{path}{dot}{error.path}: {error.said}".lstrip(".: ")


def _parts(kind: Any, data: object) -> Iterator[tuple[str, Any, object]]:  # noqa: ANN401 - a type hint
    """The parts of what may hold records: path, type hint and value of each."""
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
    """The fault with the line of the innermost part of its path that has one."""
    former = None
    while path not in lines and path != former:
        former, path = path, re.sub(r"(\.[^.\[]*|\[\d+\])$|^[^.\[]*$", "", path)
    return f"{name}: line {lines.get(path, 1)}: {text}"
