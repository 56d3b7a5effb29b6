"""The reviewed table equals the resolver's answers, so that each change of an answer is reviewed before a release."""

from __future__ import annotations

import pytest

from gpuenv.matrix.tables import Matrix
from tests.matrix.table import FILE, PYTHONS, render

_FIX = "run `make answers`, and read what has changed in tests/matrix/answers.txt"


def test_the_answers_for_the_usual_platform_equal_the_reviewed_ones(matrix: Matrix) -> None:
    assert FILE.read_text(encoding="utf-8").startswith(render(matrix, 1)), _FIX


@pytest.mark.slow
def test_all_answers_equal_the_reviewed_ones(matrix: Matrix) -> None:
    assert FILE.read_text(encoding="utf-8") == render(matrix), _FIX


def test_the_table_has_every_python_and_lines_below_160_characters() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) < 160
    for python in PYTHONS:
        assert f"{python}\n" in text or f"{python}, " in text
