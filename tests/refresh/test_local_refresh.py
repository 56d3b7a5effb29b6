"""Refreshes against a local index, with uv and pip."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.matrix.load import load
from tests.refresh.workspace import SMALL, Workspace, without_dates

if TYPE_CHECKING:
    from tests.refresh.local_index import LocalIndex


def test_new_rows_are_measured_and_written_once(workspace: Workspace) -> None:
    code, out, error = workspace.run()
    assert code == 0, error
    after = load(workspace.matrix)
    minor = next(row for row in after.cuda_minors if str(row.cuda) == "13.5")
    assert [str(capability) for capability in minor.capabilities] == ["7.5", "8.0", "9.0"]
    assert (minor.ptx, minor.soname, minor.builtins) == ("9.5", "libnvrtc.so.13", "libnvrtc-builtins.so.13.5")
    assert (str(minor.cudart), str(minor.libc), minor.toolkit_wheels) == ("13.0", "glibc-2.17", True)
    release = next(row for row in after.wheel_lines[0].releases if row.cupy == "14.2.0")
    platform = release.platforms["linux-x86_64"]
    assert (platform.sass, platform.ptx, platform.tag) == (("7.5", "8.0", "9.0"), ("9.0",), "manylinux2014_x86_64")
    assert (release.numpy, release.requires_python, release.uploaded) == ("<2.6,>=2.0", ">=3.10", "2026-08-20")
    assert "to measure: 2; to download" in error
    assert re.search(r"2/2 cupy-cuda13x 14\.2\.0 \(\d+ MB\): downloading and measuring", error)
    assert "measured: 2" in error
    assert "machines that now resolve differently" in out
    assert "No machine profile resolves differently" in out  # this NVRTC adds no GPU of theirs
    before = workspace.text
    assert "is up to date" in workspace.run()[1]
    assert workspace.text == before


@pytest.mark.parametrize("columns", ["20", "33", "40", "100"])
def test_a_refresh_works_at_any_terminal_width(workspace: Workspace, columns: str) -> None:
    """uv wraps its messages at the terminal width."""
    workspace.environment["COLUMNS"] = columns
    code, _, error = workspace.run()
    assert code == 0, error
    assert "measured: 2" in error


def _path_with_pip(folder: Path) -> Path:
    """Creates a folder for PATH with pip and without uv."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=300)
    return folder / "bin"


def test_a_refresh_with_pip_gives_the_same_rows_as_with_uv(workspace: Workspace, tmp_path: Path) -> None:
    assert workspace.run()[0] == 0
    by_uv = workspace.text
    workspace.matrix.write_text(SMALL, encoding="utf-8")
    workspace.environment["PATH"] = f"{_path_with_pip(tmp_path / 'venv')}:{workspace.environment['PATH']}"
    code, _, error = workspace.run("--index", "pip")
    assert code == 0, error
    assert "with pip" in error
    # pip reports no upload dates.
    assert without_dates(workspace.text) == without_dates(by_uv).replace("        uploaded: '2026-08-20'\n", "")


def test_a_yanked_release_is_marked_until_it_is_restored(workspace: Workspace, index: LocalIndex) -> None:
    assert workspace.run()[0] == 0
    index.yanked["cupy-cuda13x==14.1.1"] = "it's broken, says upstream: wait"
    code, out, error = workspace.run()
    assert code == 0, error
    assert "- cupy-cuda13x 14.1.1: yanked: it's broken, says upstream: wait" in out
    assert load(workspace.matrix).wheel_lines[0].releases[1].yanked == "it's broken, says upstream: wait"
    index.yanked.clear()
    assert "14.1.1: no longer yanked" in workspace.run()[1]
    assert load(workspace.matrix).wheel_lines[0].releases[1].yanked is None


def test_outdated_and_corrupt_cache_entries_are_measured_again(workspace: Workspace) -> None:
    cache = workspace.matrix.parent / "cache" / "gpuenv" / "refresh"
    cache.mkdir(parents=True)
    (cache / "nvrtc-13.5.json").write_text('{"form": "2", "files": ["00"], "row": {}}', encoding="utf-8")
    (cache / "cupy-cuda13x-14.2.0.json").write_text("{", encoding="utf-8")
    code, _, error = workspace.run()
    assert code == 0, error
    assert "CUDA 13.5" in error
    assert "cupy-cuda13x 14.2.0" in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--index", "conda"), "expected uv or pip"),
        (("--again", "cuda/99.9"), "no release or CUDA minor version is named"),
    ],
)
def test_invalid_options_are_refused(options: tuple[str, ...], message: str, workspace: Workspace) -> None:
    code, _, error = workspace.run(*options)
    assert code == 2
    assert message in error
    assert workspace.text == SMALL


def test_a_known_row_is_measured_again_on_demand(workspace: Workspace) -> None:
    assert workspace.run()[0] == 0
    assert workspace.run("--again", "cupy-cuda13x/14.2.0")[0] == 0  # its CUDA minor is known now
    text = workspace.text
    changed = text.replace("sass: ['7.5', '8.0', '9.0']", "sass: ['8.0']")
    assert changed != text
    workspace.matrix.write_text(changed, encoding="utf-8")
    code, _, error = workspace.run("--again", "cupy-cuda13x/14.2.0")
    assert code == 0, error
    assert workspace.text == text
