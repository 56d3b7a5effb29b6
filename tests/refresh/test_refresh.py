"""``matrix refresh``: rows are added in place, failures change nothing, and the real index gives the shipped rows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from gpuenv.data import data_path
from gpuenv.files import user_cache, user_data
from gpuenv.matrix.canonical import matrix_text
from gpuenv.matrix.load import load, read_values, to_matrix
from gpuenv.model.codec import encode
from gpuenv.probe.children import ChildResult, Ending
from gpuenv.refresh.package_index import index_error
from gpuenv.refresh.row_edits import Additions, MatrixLayoutError, NewRow, add_to
from gpuenv.refresh.summary import changed_answers
from tests.support.planted_secrets import LONG_URL, shown_parts

TEXT = data_path("matrix.yaml").read_text(encoding="utf-8")
_MATRIX = load(data_path("matrix.yaml"))
_NEWEST = max((row.cupy for line in _MATRIX.wheel_lines for row in line.releases), key=Version)
_LINES = {"cupy-cuda12x": "wheel_lines", "cupy-cuda13x": "wheel_lines", "cupy-rocm-7-0": "rocm_lines"}


def _values() -> dict[str, Any]:
    """Returns the plain values of the matrix without those that depend on its newest CuPy."""
    values, _ = read_values(TEXT, "m.yaml")
    values["images"] = [row for row in values["images"] if row.get("cupy") != _NEWEST]
    values["conda_builds"] = [row for row in values["conda_builds"] if row["cupy"] != _NEWEST]
    return values


def _text(values: dict[str, Any]) -> str:
    return matrix_text(to_matrix(values, "m.yaml", {}), values, {})


def _without_the_newest() -> dict[str, Any]:
    """Returns the matrix without the newest CuPy of every line and the newest NVRTC."""
    values = _values()
    for line in (*values["wheel_lines"], *values["rocm_lines"]):
        line["releases"] = [row for row in line["releases"] if row["cupy"] != _NEWEST]
    values["cuda_minors"] = [row for row in values["cuda_minors"] if row["cuda"] != "13.5"]
    return values


def _removed_rows() -> tuple[NewRow, ...]:
    """Returns the removed rows as a refresh adds them."""
    rows = []
    values = _values()
    for line, table in _LINES.items():
        releases = next(row for row in values[table] if row["name"] == line)["releases"]
        row = next(row for row in releases if row["cupy"] == _NEWEST)
        rows.append(NewRow(f"{line} {_NEWEST}", row["source"], _source(row), row, table, _NEWEST, line))
    row = next(row for row in values["cuda_minors"] if row["cuda"] == "13.5")
    return (*rows, NewRow("CUDA 13.5", row["source"], _source(row), row, "cuda_minors", "13.5", None))


def _source(row: dict[str, Any]) -> dict[str, Any]:
    return dict(encode(_MATRIX.sources[row["source"]]))


def test_the_error_of_an_installer_is_not_cut_within_a_secret() -> None:
    text = f"error: cannot open {LONG_URL.line} {'a' * 250}"
    message = str(index_error("cupy", ChildResult(Ending.EXITED, 1, "", text, None, 0.0, 0.0)))
    assert "cannot open" in message
    assert shown_parts(LONG_URL, message) == []


def test_removed_rows_are_added_back_in_place() -> None:
    values = _without_the_newest()
    add_to(values, Additions(_removed_rows()), _MATRIX.revision)
    for row in _removed_rows():
        assert values["sources"].pop(row.key) == row.source
    assert _text(values) == _text(_values())


def test_a_newly_available_toolkit_is_marked() -> None:
    values = _values()
    del values["cuda_minors"][-1]["toolkit_wheels"]
    add_to(values, Additions(toolkits=("13.5",)), _MATRIX.revision)
    assert _text(values) == _text(_values())


def test_yanked_and_restored_releases_are_marked() -> None:
    values = _values()
    add_to(values, Additions(yanked=(("cupy-cuda13x", "14.1.0", "a: reason"),)), _MATRIX.revision)
    assert "        yanked: 'a: reason'\n" in _text(values)
    add_to(values, Additions(restored=(("cupy-cuda13x", "14.1.0"),)), _MATRIX.revision)
    assert _text(values) == _text(_values())


def test_a_release_of_an_unknown_line_is_refused() -> None:
    row = NewRow("cupy-cuda14x 15.0.0", "cupy-cuda14x-15.0.0", {}, {}, "wheel_lines", "15.0.0", "cupy-cuda14x")
    with pytest.raises(MatrixLayoutError, match="no line cupy-cuda14x"):
        add_to(_values(), Additions((row,)), "2026-12-01")


def test_the_difference_names_the_machines_that_resolve_differently() -> None:
    before, after = to_matrix(_without_the_newest(), "m.yaml", {}), _MATRIX
    changes = list(changed_answers(before, after))
    assert ("cupy-cuda13x[ctk]==14.1.1", "cupy-cuda13x[ctk]==14.2.0") in {(row.before, row.after) for row in changes}
    assert list(changed_answers(after, after)) == []


def test_a_branch_and_a_capability_are_on_one_line_of_the_difference() -> None:
    before = to_matrix(_without_the_newest(), "m.yaml", {})
    order = sorted(row.branch for row in _MATRIX.driver_branches)
    cells: list[tuple[str, int, str]] = []
    for row in changed_answers(before, _MATRIX):
        for part in row.branches.split(", "):
            first, _, last = part.partition(" to ")
            branches = order[order.index(int(first)) : order.index(int(last or first)) + 1]
            cells += [(row.machine, branch, text) for branch in branches for text in row.capabilities.split(", ")]
    assert len(cells) > 100
    assert len(cells) == len(set(cells))


def _refresh(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpuenv", "matrix", "refresh", *map(str, arguments)]
    environment = {**os.environ, **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=1800)


def test_an_unreachable_index_leaves_the_matrix_unchanged(tmp_path: Path) -> None:
    matrix = tmp_path / "m.yaml"
    matrix.write_text(_text(_without_the_newest()), encoding="utf-8")
    result = _refresh(
        "--matrix", matrix, UV_OFFLINE="1", UV_CACHE_DIR=str(tmp_path / "uv"), XDG_CACHE_HOME=str(tmp_path)
    )
    assert result.returncode == 8
    assert "the matrix is unchanged" in result.stderr
    assert "Traceback" not in result.stderr
    assert matrix.read_text(encoding="utf-8") == _text(_without_the_newest())
    assert {path.name for path in tmp_path.iterdir()} <= {"m.yaml", "uv", "gpuenv"}


def test_an_invalid_matrix_is_not_refreshed(tmp_path: Path) -> None:
    matrix = tmp_path / "m.yaml"
    matrix.write_text(TEXT.replace("schema: gpuenv.matrix/1", "schema: other"), encoding="utf-8")
    assert _refresh("--matrix", matrix, UV_OFFLINE="1").returncode == 6


def test_a_refresh_without_its_extra_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['elftools'] = None; sys.argv[1:] = ['matrix', 'refresh', '--dry-run']\n"
        "from gpuenv.__main__ import main; main()"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 2
    assert "gpuenv: measuring needs the refresh extra of gpuenv: " in result.stderr
    assert result.stderr.endswith("pip install 'gpuenv[refresh]'\n")


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
    matrix.write_text(_text(_without_the_newest()), encoding="utf-8")
    result = _refresh("--matrix", matrix, XDG_CACHE_HOME=str(tmp_path))
    assert result.returncode == 0, result.stderr
    measured, _ = read_values(matrix.read_text(encoding="utf-8"), "m.yaml")
    for row in _removed_rows():
        assert measured["sources"].pop(row.key)["sha256"] == row.source["sha256"]
    expected = _values()
    newest = next(row for row in expected["cuda_minors"] if row["cuda"] == "13.5")
    for key in ("linux", "driver_source", "toolkit_libc", "toolkit_source"):
        del newest[key]  # from documents, which a refresh does not read
    assert _text({**measured, "revision": _MATRIX.revision}) == _text(expected)
    assert "-> cupy-cuda13x[ctk]==" in result.stdout
    again = _refresh("--matrix", matrix, XDG_CACHE_HOME=str(tmp_path))
    assert "is up to date" in again.stdout
