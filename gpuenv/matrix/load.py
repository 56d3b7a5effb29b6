"""Reads and validates ``matrix.yaml``: every fault is reported, each with its line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpuenv.matrix import strict_yaml
from gpuenv.matrix.faults import Fault, MatrixError
from gpuenv.matrix.records import SCHEMA, Matrix
from gpuenv.matrix.validate import faults
from gpuenv.model.codec import DecodeError, decode


def load(path: Path) -> Matrix:
    """Reads a matrix and holds it against its own rules.

    Raises:
        MatrixError: with every fault found.
        OSError, UnicodeDecodeError: when the file cannot be read.
    """
    size = path.stat().st_size
    if size > strict_yaml.LARGEST:
        raise MatrixError(
            [f"{path}: line 1: {size} bytes are more than the {strict_yaml.LARGEST} that a matrix may have"]
        )
    return parse(path.read_text(encoding="utf-8"), str(path))


def parse(text: str, name: str) -> Matrix:
    """The matrix in a text; ``name`` stands for it in messages."""
    try:
        document = strict_yaml.parse(text)
    except strict_yaml.YamlError as error:
        raise MatrixError([f"{name}: {error}"]) from error
    data = document.value
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise MatrixError([f"{name}: line 1: expected a matrix with schema: {SCHEMA}"])
    try:
        matrix = decode(Matrix, data, texts=True)
    except DecodeError as error:
        raise MatrixError([_located(name, document.lines, str(error).split(":", 1)[0], str(error))]) from error
    found = list(_described(faults(matrix), name, document.lines))
    if found:
        raise MatrixError(found)
    return matrix


def _described(found: Iterable[Fault], name: str, lines: dict[str, int]) -> Iterator[str]:
    for fault in found:
        yield _located(name, lines, fault.path, f"{fault.path}: {fault.text}")


def _located(name: str, lines: dict[str, int], path: str, text: str) -> str:
    """The fault with the line of the innermost part of its path that has one."""
    while path and path not in lines:
        path = re.sub(r"(\.[^.\[]*|\[\d+\])$|^[^.\[]*$", "", path)
    return f"{name}: line {lines.get(path, 1)}: {text}"
