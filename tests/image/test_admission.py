"""NVIDIA_REQUIRE_CUDA of every CUDA against every driver branch and brand."""

from __future__ import annotations

import pytest

from gpuenv.image.require import holds, parse
from gpuenv.probe.brand import BRANDS
from tests.image.admission import FILE, Row, admitted, branches, machine, rows, table


def test_the_reviewed_table_is_what_the_grammar_answers() -> None:
    assert FILE.read_text(encoding="utf-8") == table(), "read what changed, then: python -m tests.image.admission"


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.image}-{len(row.branches)}-{len(row.brands)}")
def test_a_window_is_no_more_than_it_says(row: Row) -> None:
    """By plain arithmetic, without the grammar: the level is enough, or branch and brand are both listed."""
    for brand in BRANDS:
        level = tuple(map(int, row.cuda.split(".")))
        expected = tuple(
            entry.branch
            for entry in branches()
            if (entry.cuda.major, entry.cuda.minor) >= level or (entry.branch in row.branches and brand in row.brands)
        )
        assert admitted(row, brand) == expected


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.image)
def test_a_brand_that_nobody_told_is_let_in_where_any_is(row: Row) -> None:
    requirement = parse(row.text)
    for entry in branches():
        some = any(holds(requirement, machine(entry, brand)) for brand in BRANDS)
        assert holds(requirement, machine(entry, None)) is some


def test_what_is_known_of_the_images() -> None:
    """The facts that people trip over, in so many words."""
    newest = {row.image: row for row in rows()}
    assert 545 not in admitted(newest["12.9.1"], "tesla")
    assert 555 not in admitted(newest["12.9.1"], "tesla")
    assert {535, 550, 560, 565, 570} <= set(admitted(newest["12.9.1"], "tesla"))
    assert min(admitted(newest["12.9.1"], "geforce")) == 575
    assert 535 in admitted(newest["12.4.1"], "geforce")
    assert min(admitted(newest["13.1.0"], "geforce")) == 590
