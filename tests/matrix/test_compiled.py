"""The matrix as compiled when gpuenv is built."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from gpuenv.data import data_path
from gpuenv.matrix.load import compile_matrix, load
from gpuenv.matrix.tables import Matrix

SHIPPED = data_path("matrix.yaml")


def equal(one: Matrix, other: Matrix) -> bool:
    return all(getattr(one, field.name) == getattr(other, field.name) for field in fields(Matrix))


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    path = tmp_path / "matrix.json"
    path.write_text(compile_matrix(SHIPPED.read_bytes(), "matrix.yaml"), encoding="utf-8")
    return path


def test_the_compiled_matrix_equals_the_yaml(compiled: Path) -> None:
    text = compiled.read_text(encoding="utf-8")
    assert equal(load(SHIPPED, compiled=compiled), load(SHIPPED, compiled=None))
    compiled.write_text(text.replace('"revision":"', '"revision":"1999-', 1), encoding="utf-8")
    assert load(SHIPPED, compiled=compiled).revision.startswith("1999-"), "the JSON was not read"
    assert not load(SHIPPED, compiled=None).revision.startswith("1999-")


def test_a_changed_yaml_is_read_instead_of_the_compiled_matrix(compiled: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed.yaml"
    text = SHIPPED.read_text(encoding="utf-8")
    changed.write_text(f"{text}# a comment\n", encoding="utf-8")
    compiled.write_text(compiled.read_text(encoding="utf-8").replace('"revision":"', '"revision":"1999-', 1), "utf-8")
    assert not load(changed, compiled=compiled).revision.startswith("1999-")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"crc32": 0, "matrix": {}}'])
def test_the_yaml_is_read_if_the_compiled_matrix_is_invalid(compiled: Path, text: str) -> None:
    compiled.write_text(text, encoding="utf-8")
    assert load(SHIPPED, compiled=compiled).wheel_lines
    compiled.unlink()
    assert load(SHIPPED, compiled=compiled).wheel_lines
