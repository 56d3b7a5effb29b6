"""The reviewed table of answers is what the resolver answers: any change of it is seen before it is shipped."""

from __future__ import annotations

import pytest

from gpuenv.matrix.tables import Matrix
from tests.matrix.table import FILE, PYTHONS, written

_REMEDY = "run `make answers`, and read what has changed in tests/matrix/answers.txt"


def test_the_answers_for_the_usual_platform_are_the_reviewed_ones(matrix: Matrix) -> None:
    assert FILE.read_text(encoding="utf-8").startswith(written(matrix, 1)), _REMEDY


@pytest.mark.slow
def test_every_answer_is_the_reviewed_one(matrix: Matrix) -> None:
    assert FILE.read_text(encoding="utf-8") == written(matrix), _REMEDY


def test_the_table_has_every_python_and_no_line_too_long() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) < 160
    for python in PYTHONS:
        assert f"{python}\n" in text or f"{python}, " in text
