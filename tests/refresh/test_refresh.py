"""``matrix refresh``: rows are added in place, failures change nothing, and the real index gives the shipped rows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.version import Version

from gpuenv.data import data_path
from gpuenv.files import user_cache, user_data
from gpuenv.matrix.load import load, parse
from gpuenv.refresh.row_edits import Additions, MatrixLayoutError, NewRow, flow_mapping, with_additions
from gpuenv.refresh.summary import changed_answers

TEXT = data_path("matrix.yaml").read_text(encoding="utf-8")
_NEWEST = max(re.findall(r"^  cupy-cuda13x-(\d[\d.]+):", TEXT, re.MULTILINE), key=Version)
_LINES = {"cupy-cuda12x": "wheel_lines", "cupy-cuda13x": "wheel_lines", "cupy-rocm-7-0": "rocm_lines"}
_OTHER_LINES = [line for line in TEXT.splitlines() if f"cupy: {_NEWEST}" in line and "reference" in line]


def _without_the_newest() -> str:
    """Returns the matrix without the newest CuPy of every line, the newest NVRTC and their dependents."""
    removed = (
        f"{{cupy: {_NEWEST},",
        *(f"{line}-{_NEWEST}:" for line in _LINES),
        "nvrtc-13.5:",
        "{cuda: 13.5,",
    )
    lines = [
        line for line in TEXT.splitlines() if not any(mark in line for mark in removed) and line not in _OTHER_LINES
    ]
    return "\n".join(lines) + "\n"


def _removed_rows() -> tuple[NewRow, ...]:
    """Returns the removed rows as a refresh adds them."""
    rows = []
    for line, table in _LINES.items():
        key = f"{line}-{_NEWEST}"
        (source,) = re.findall(rf"^  {key}: (.*)$", TEXT, re.MULTILINE)
        (row,) = re.findall(rf"^      - (.*source: {key}\}})$", TEXT, re.MULTILINE)
        rows.append(NewRow(f"{line} {_NEWEST}", key, source, row, table, _NEWEST, line))
    (source,) = re.findall(r"^  nvrtc-13\.5: (.*)$", TEXT, re.MULTILINE)
    (row,) = re.findall(r"^  - (\{cuda: 13\.5,.*\})$", TEXT, re.MULTILINE)
    return (*rows, NewRow("CUDA 13.5", "nvrtc-13.5", source, row, "cuda_minors", "13.5", None))


def test_removed_rows_are_added_back_in_place() -> None:
    again = with_additions(_without_the_newest(), Additions(_removed_rows()), load(data_path("matrix.yaml")).revision)
    assert again == "\n".join(line for line in TEXT.splitlines() if line not in _OTHER_LINES) + "\n"
    parse(again, "m.yaml")


def test_a_newly_available_toolkit_is_marked() -> None:
    before = TEXT.replace("ptx: 9.5, toolkit_wheels: 'true'", "ptx: 9.5, toolkit_wheels: 'false'")
    assert before != TEXT
    assert with_additions(before, Additions(toolkits=("13.5",)), load(data_path("matrix.yaml")).revision) == TEXT


def test_a_row_without_a_matching_section_is_refused() -> None:
    row = NewRow("cupy-cuda14x 15.0.0", "cupy-cuda14x-15.0.0", "{}", "{}", "wheel_lines", "15.0.0", "cupy-cuda14x")
    with pytest.raises(MatrixLayoutError, match="no line cupy-cuda14x"):
        with_additions(TEXT, Additions((row,)), "2026-12-01")
    with pytest.raises(MatrixLayoutError, match="no section sources"):
        with_additions("schema: x\n", Additions(_removed_rows()), "2026-12-01")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"a": "12.9", "b": None, "c": ["x", "y z"]}, "{a: 12.9, c: [x, y z]}"),
        ({"a": "<2.6,>=1.22", "b": "it's"}, "{a: '<2.6,>=1.22', b: 'it''s'}"),
        ({"a": True, "b": {"c": "null"}}, "{a: 'true', b: {c: 'null'}}"),
    ],
)
def test_rows_are_written_in_the_style_of_the_matrix(values: dict[str, object], text: str) -> None:
    assert flow_mapping(values) == text


def test_the_difference_names_the_machines_that_resolve_differently() -> None:
    before, after = parse(_without_the_newest(), "m.yaml"), load(data_path("matrix.yaml"))
    changes = list(changed_answers(before, after))
    assert ("cupy-cuda13x[ctk]==14.1.1", "cupy-cuda13x[ctk]==14.2.0") in {(row.before, row.after) for row in changes}
    assert list(changed_answers(after, after)) == []


def _refresh(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpuenv", "matrix", "refresh", *map(str, arguments)]
    environment = {**os.environ, **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=1800)


def test_an_unreachable_index_leaves_the_matrix_unchanged(tmp_path: Path) -> None:
    matrix = tmp_path / "m.yaml"
    matrix.write_text(_without_the_newest(), encoding="utf-8")
    result = _refresh(
        "--matrix", matrix, UV_OFFLINE="1", UV_CACHE_DIR=str(tmp_path / "uv"), XDG_CACHE_HOME=str(tmp_path)
    )
    assert result.returncode == 8
    assert "the matrix is unchanged" in result.stderr
    assert "Traceback" not in result.stderr
    assert matrix.read_text(encoding="utf-8") == _without_the_newest()
    assert {path.name for path in tmp_path.iterdir()} <= {"m.yaml", "uv", "gpuenv"}


def test_an_invalid_matrix_is_not_refreshed(tmp_path: Path) -> None:
    matrix = tmp_path / "m.yaml"
    matrix.write_text(TEXT.replace("schema: gpuenv.matrix/1", "schema: other"), encoding="utf-8")
    assert _refresh("--matrix", matrix, UV_OFFLINE="1").returncode == 6


def test_a_newer_matrix_of_the_user_is_used_and_reported(tmp_path: Path) -> None:
    user_matrix = tmp_path / "gpuenv" / "matrix.yaml"
    user_matrix.parent.mkdir()
    command = [sys.executable, "-m", "gpuenv", "matrix", "check"]
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path)}
    for revision, used in (("2020-01-01", False), ("2999-01-01", True)):
        user_matrix.write_text(re.sub(r"revision: '.*'", f"revision: '{revision}'", TEXT), encoding="utf-8")
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
        assert (f"your own matrix, {user_matrix}" in result.stderr) is used
        assert (f"revision {revision}" in result.stdout) is used


def test_user_folders_follow_the_xdg_variables() -> None:
    assert user_data({"XDG_DATA_HOME": "/d", "HOME": "/h"}) == Path("/d/gpuenv")
    assert user_data({"XDG_DATA_HOME": "relative", "HOME": "/h"}) == Path("/h/.local/share/gpuenv")
    assert user_cache({"HOME": "/h"}) == Path("/h/.cache/gpuenv")
    assert user_cache({}) is None


@pytest.mark.network
@pytest.mark.slow
def test_removed_rows_are_measured_as_shipped(tmp_path: Path) -> None:
    """Downloads about 300 MB; a second refresh finds nothing new."""
    matrix = tmp_path / "m.yaml"
    matrix.write_text(_without_the_newest(), encoding="utf-8")
    result = _refresh("--matrix", matrix, XDG_CACHE_HOME=str(tmp_path))
    assert result.returncode == 0, result.stderr
    # The date differs, and some shipped rows note a cross-check with cuobjdump.
    undated = re.compile(r"(seen: |revision: ')\d{4}-\d\d-\d\d|, note: GPU code also read by cuobjdump")
    expected = "\n".join(line for line in TEXT.splitlines() if line not in _OTHER_LINES) + "\n"
    assert undated.sub("", matrix.read_text(encoding="utf-8")) == undated.sub("", expected)
    assert "-> cupy-cuda13x[ctk]==" in result.stdout
    again = _refresh("--matrix", matrix, XDG_CACHE_HOME=str(tmp_path))
    assert "is up to date" in again.stdout
