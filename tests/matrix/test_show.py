"""``matrix show``: rows with their proofs, filters, and the HTML page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gpuenv.matrix.row_lookup import MACHINE, Grid, NoSuchRowError, RowFilter, build_grid, select_rows
from gpuenv.matrix.tables import Matrix
from gpuenv.report.matrix_table import page, row_lines, row_markdown
from tests.cli.program import gpuenv
from tests.matrix.resolutions import resolution_of


@pytest.fixture(scope="module")
def grid(matrix: Matrix) -> Grid:
    return build_grid(matrix)


def test_every_row_has_a_unique_name_and_a_proof(matrix: Matrix) -> None:
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


def test_each_cell_equals_the_answer_of_resolve(grid: Grid, matrix: Matrix) -> None:
    for branch, cells in grid.rows[::5]:
        for kind, cell in list(zip(grid.kinds, cells, strict=True))[::4]:
            facts = (*MACHINE, f"driver={branch.branch}", f"compute-capability={kind.capability}")
            wheel = resolution_of(matrix, *facts).wheel
            assert cell.line == (wheel.distribution if wheel else None)
            assert cell.reason


class _PageParser(HTMLParser):
    """Collects a page's buttons and the resources that it would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.buttons: list[dict[str, str | None]] = []
        self.fetched: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "button":
            self.buttons.append(attributes)
        self.fetched += [value for key, value in attrs if key in ("src", "href") and value]
        if tag not in ("meta", "br", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_fetches_nothing(grid: Grid, matrix: Matrix) -> None:
    text = page(matrix, grid)
    parser = _PageParser()
    parser.feed(text)
    assert parser.open == []
    assert parser.fetched == []
    assert "http" not in text.split("Where this is known from")[0]
    assert len(parser.buttons) == len(grid.rows) * len(grid.kinds)
    for button in parser.buttons:
        assert button["title"]
        assert button["aria-label"]
    assert "prefers-color-scheme: dark" in text


def _contrast(one: str, other: str) -> float:
    """WCAG 2's contrast ratio."""

    def luminance(color: str) -> float:
        digits = color if len(color) == 6 else "".join(2 * digit for digit in color)
        parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    values = sorted((luminance(one), luminance(other)))
    return (values[1] + 0.05) / (values[0] + 0.05)


def test_the_pages_colours_have_enough_contrast_in_light_and_dark_mode(grid: Grid, matrix: Matrix) -> None:
    text = page(matrix, grid)
    schemes = [
        dict(re.findall(r"--(\w+): #([0-9a-f]{3,6})", part)) for part in re.findall(r":root \{(.*?)\}", text, re.DOTALL)
    ]
    assert len(schemes) == 2
    for colors in schemes:
        for name in ("paper", "none", "l11", "l12", "l13"):
            assert _contrast(colors["ink"], colors[name]) >= 4.5
        assert _contrast(colors["soft"], colors["paper"]) >= 4.5


@pytest.mark.slow
def test_arrow_keys_move_between_the_cells_of_the_page(grid: Grid, matrix: Matrix, tmp_path: Path) -> None:
    """In a real browser; focus on a cell shows its reason."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no browser")
    probe = """
    <script>
    const at = () => document.activeElement.dataset.where;
    const press = key => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
    const seen = [];
    document.querySelector('.grid button').focus(); seen.push(at());
    press('ArrowRight'); seen.push(at()); press('ArrowDown'); seen.push(at()); press('End'); seen.push(at());
    press('ArrowRight'); seen.push(at()); seen.push(document.getElementById('reason').textContent.length > 40);
    seen.push(document.querySelectorAll('.grid button[tabindex="0"]').length);
    document.title = JSON.stringify(seen);
    </script></body>"""
    file = tmp_path / "matrix.html"
    file.write_text(page(matrix, grid).replace("</body>", probe), encoding="utf-8")
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--dump-dom",
        f"--user-data-dir={tmp_path}/profile",
    ]
    done = subprocess.run([*command, file.as_uri()], capture_output=True, text=True, check=False, timeout=120)
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
    assert title is not None, done.stderr
    first, right, below, end, beyond, has_reason, reachable = json.loads(
        title[1].replace("&amp;", "&").replace("&gt;", ">")
    )
    kinds, branches = grid.kinds, [branch.branch for branch, _ in grid.rows]
    assert first.startswith(f"Driver {branches[0]}, {kinds[0].generation} {kinds[0].capability}:")
    assert right.startswith(f"Driver {branches[0]}, {kinds[1].generation} {kinds[1].capability}:")
    assert below.startswith(f"Driver {branches[1]}, {kinds[1].generation} {kinds[1].capability}:")
    assert end.startswith(f"Driver {branches[1]}, {kinds[-1].generation} {kinds[-1].capability}:")
    assert (beyond, has_reason, reachable) == (end, True, 1)


@pytest.mark.slow
def test_the_command_line_writes_the_page_to_a_file(tmp_path: Path) -> None:
    assert gpuenv("matrix", "show", "--format", "html", "-o", tmp_path / "m.html").returncode == 0
    assert (tmp_path / "m.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_command_line_prints_the_matrix_or_selected_rows() -> None:
    matrix = json.loads(gpuenv("matrix", "show", "--format", "json").stdout)
    assert matrix["schema"] == "gpuenv.matrix/1"
    selected = json.loads(gpuenv("matrix", "show", "--format", "json", "--row", "driver/580").stdout)
    assert selected["schema"] == "gpuenv.matrix-rows/1"
    assert selected["rows"][0]["proofs"][0]["details"]["kind"] == "document"
    assert "driver/580" in gpuenv("matrix", "show", "--driver", "580").stdout
    refused = gpuenv("matrix", "show", "--row", "cuda/99.0")
    assert (refused.returncode, "--row cuda/99.0" in refused.stderr) == (2, True)
