"""``matrix show``: the overview, rows with their sources, and filters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from gpuenv.matrix.constraints import oldest_driver
from gpuenv.matrix.overview import spans, summarize_lines
from gpuenv.matrix.row_lookup import NoSuchRowError, RowFilter, select_rows
from gpuenv.matrix.tables import Matrix
from gpuenv.model.versions import ComputeCapability
from gpuenv.report.matrix_table import overview_lines, overview_markdown, row_lines, row_markdown
from gpuenv.report.text_line import TextLine
from tests.cli.program import gpuenv


def test_every_row_has_a_unique_name_and_a_source(matrix: Matrix) -> None:
    rows = select_rows(matrix, RowFilter()).rows
    names = [row.name for row in rows]
    assert len(names) == len(set(names)) > 500
    for row in rows:
        assert row.facts
        assert row.proofs
    for row in rows[::97]:
        assert select_rows(matrix, RowFilter(row=row.name)).rows[0] == row


def test_a_measured_row_shows_the_file_and_its_full_digest(matrix: Matrix) -> None:
    text = "\n".join(line.text for line in row_lines(select_rows(matrix, RowFilter(row="cuda/12.9"))))
    assert re.search(r"measured 2026-\d\d-\d\d in nvidia_cuda_nvrtc_cu12-12\.9\S+\.whl, sha256 [0-9a-f]{64}", text)


@pytest.mark.parametrize(
    ("filters", "included", "excluded"),
    [
        (RowFilter(line="13x"), {"cupy-cuda13x/14.2.0", "cuda/13.0", "cuda/13"}, {"cupy-cuda12x/14.2.0", "cuda/12.9"}),
        (
            RowFilter(gpu="V100"),
            {"cuda/12.9", "cupy-cuda12x/14.2.0", "generation/Volta 7.0"},
            {"cupy-cuda13x/14.2.0", "cuda/13.0"},
        ),
        (
            RowFilter(driver="535"),
            {"driver/535", "cuda/12", "image/nvidia/cuda:12.9.1-base-ubuntu24.04"},
            {"cuda/13", "driver/580"},
        ),
        (RowFilter(driver="580"), {"driver/580", "cuda/13", "generation/Volta 7.0"}, {"generation/Kepler 3.0"}),
        (RowFilter(gpu="V100", line="cupy-cuda12x"), {"cuda/12.0"}, {"cuda/11.8", "cuda/13.0"}),
        (
            RowFilter(gpu="MI300X"),
            {"amd-gpu/AMD Instinct MI300X", "cupy-rocm-7-0/14.2.0"},
            {"amd-gpu/AMD Instinct MI250X", "cupy-rocm-5-0/13.3.0", "cupy-cuda13x/14.2.0"},
        ),
    ],
)
def test_filters_select_the_rows_of_a_line_gpu_or_driver(
    filters: RowFilter, included: set[str], excluded: set[str], matrix: Matrix
) -> None:
    names = {row.name for row in select_rows(matrix, filters).rows}
    assert included <= names
    assert not excluded & names


@pytest.mark.parametrize(
    "filters", [RowFilter(row="cuda/99.0"), RowFilter(line="cupy"), RowFilter(gpu="H1000"), RowFilter(driver="new")]
)
def test_an_unknown_filter_value_is_rejected(filters: RowFilter, matrix: Matrix) -> None:
    with pytest.raises(ValueError, match=r"99\.0|cupy|H1000|new"):
        select_rows(matrix, filters)
    assert issubclass(NoSuchRowError, ValueError)


def test_markdown_rows_have_equally_many_columns(matrix: Matrix) -> None:
    rows = [line.text for line in row_markdown(select_rows(matrix, RowFilter(line="13x"))) if line.text.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4}


@pytest.mark.parametrize("lines", [overview_lines, overview_markdown])
def test_the_overview_is_one_screen_and_names_every_wheel_line(
    lines: Callable[[Matrix, int | None], Iterator[TextLine]], matrix: Matrix
) -> None:
    texts = [line.text for line in lines(matrix, 5)]
    assert f"{matrix.revision}, 5 days old" in texts[0]
    assert 24 <= len(texts) <= 60
    for line in matrix.wheel_lines:
        (row,) = [text for text in texts if f"{line.name} " in text]
        assert line.releases[0].cupy in row
        assert str(oldest_driver(line, matrix)) in row
        assert str(oldest_driver(line, matrix, windows=True)) in row
    for option in ("--full", "--row", "--gpu", "--driver", "--line", "--format html"):
        assert any(option in text for text in texts)


def test_the_overview_fits_a_terminal_of_80_columns_and_40_lines(matrix: Matrix) -> None:
    texts = [line.text for line in overview_lines(matrix, 5)]
    assert [text for text in texts if len(text) > 80 or not text.isascii()] == []
    assert len(texts) <= 40


def test_the_overview_of_a_line_has_its_newest_release_that_was_not_yanked(matrix: Matrix) -> None:
    line = matrix.wheel_lines[-1]
    yanked = line._replace(releases=(line.releases[0]._replace(yanked="faulty"), *line.releases[1:]))
    summary = summarize_lines(replace(matrix, wheel_lines=(*matrix.wheel_lines[:-1], yanked)))[0]
    assert (summary.line.name, summary.newest) == (line.name, line.releases[1])


def test_spans_join_neighbours_only() -> None:
    known = [ComputeCapability.parse(text) for text in ("7.0", "7.5", "8.0", "9.0")]
    assert spans([known[0], known[1], known[3]], known) == "7.0-7.5 9.0"
    assert spans([], known) == "none"


def test_the_command_line_prints_the_matrix_or_selected_rows() -> None:
    matrix = json.loads(gpuenv("matrix", "show", "--format", "json").stdout)
    assert matrix["schema"] == "gpuenv.matrix/1"
    selected = json.loads(gpuenv("matrix", "show", "--format", "json", "--row", "driver/580").stdout)
    assert selected["schema"] == "gpuenv.matrix-rows/1"
    assert selected["rows"][0]["proofs"][0]["details"]["kind"] == "document"
    overview = gpuenv("matrix", "show", "--no-color").stdout
    assert overview.startswith("Compatibility matrix of ")
    assert len(overview.splitlines()) <= 40
    assert "| driver/580 |" in gpuenv("matrix", "show", "--format", "markdown", "--full").stdout
    refused = gpuenv("matrix", "show", "--row", "cuda/99.0")
    assert (refused.returncode, "--row cuda/99.0" in refused.stderr) == (2, True)
