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


@pytest.fixture(scope="module")
def text() -> str:
    """The compiled matrix."""
    return compile_matrix(SHIPPED.read_bytes(), "matrix.yaml")


@pytest.fixture(scope="module")
def from_yaml() -> Matrix:
    return load(SHIPPED)


def of_1999(text: str, folder: Path) -> Path:
    """Writes the compiled matrix with another revision, which shows whether it is read."""
    path = folder / "matrix.json"
    path.write_text(text.replace('"revision":"', '"revision":"1999-', 1), encoding="utf-8")
    return path


def test_the_compiled_matrix_equals_the_yaml(text: str, from_yaml: Matrix, tmp_path: Path) -> None:
    path = tmp_path / "matrix.json"
    path.write_text(text, encoding="utf-8")
    assert equal(load(SHIPPED, compiled=path), from_yaml)
    assert load(SHIPPED, compiled=of_1999(text, tmp_path)).revision.startswith("1999-")
    assert not from_yaml.revision.startswith("1999-")


def test_a_changed_yaml_is_read_instead_of_the_compiled_matrix(text: str, tmp_path: Path) -> None:
    changed = tmp_path / "changed.yaml"
    changed.write_text(f"{SHIPPED.read_text(encoding='utf-8')}# a comment\n", encoding="utf-8")
    assert not load(changed, compiled=of_1999(text, tmp_path)).revision.startswith("1999-")


@pytest.mark.parametrize("broken", [None, "{", "[]", '{"crc32": 0, "matrix": {}}'])
def test_the_yaml_is_read_if_the_compiled_matrix_is_invalid(broken: str | None, tmp_path: Path) -> None:
    path = tmp_path / "matrix.json"
    if broken is not None:
        path.write_text(broken, encoding="utf-8")
    assert load(SHIPPED, compiled=path).wheel_lines
