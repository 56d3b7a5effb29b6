"""NVIDIA_REQUIRE_CUDA of every CUDA against every driver branch and brand."""

from __future__ import annotations

from gpuenv.probe.gpu_assembly import BRANDS
from tests.image.admission import Row, admitted, branches, rows


def test_an_image_is_admitted_by_its_level_or_by_a_listed_branch_and_brand() -> None:
    """Computed without the grammar."""

    def expected(row: Row, brand: str) -> tuple[int, ...]:
        level = tuple(map(int, row.cuda.split(".")))
        return tuple(
            entry.branch
            for entry in branches()
            if (entry.cuda.major, entry.cuda.minor) >= level or (entry.branch in row.branches and brand in row.brands)
        )

    cases = [(row, brand) for row in rows() for brand in BRANDS]
    assert [(row.image, brand) for row, brand in cases if admitted(row, brand) != expected(row, brand)] == []


def test_an_unknown_brand_is_admitted_if_any_brand_is() -> None:
    def by_any(row: Row) -> set[int]:
        return {branch for brand in BRANDS for branch in admitted(row, brand)}

    assert [row.image for row in rows() if set(admitted(row, None)) != by_any(row)] == []


def test_known_admissions() -> None:
    newest = {row.image: row for row in rows()}
    assert 545 not in admitted(newest["12.9.1"], "tesla")
    assert 555 not in admitted(newest["12.9.1"], "tesla")
    assert {535, 550, 560, 565, 570} <= set(admitted(newest["12.9.1"], "tesla"))
    assert min(admitted(newest["12.9.1"], "geforce")) == 575
    assert 535 in admitted(newest["12.4.1"], "geforce")
    assert min(admitted(newest["13.1.0"], "geforce")) == 590
