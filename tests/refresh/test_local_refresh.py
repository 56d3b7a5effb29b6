"""A whole refresh against an index of this machine's own, through uv and pip."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.matrix.load import load
from tests.refresh.workspace import SMALL, Bench, undated

if TYPE_CHECKING:
    from tests.refresh.local_index import LocalIndex


def test_what_is_new_is_measured_and_written_and_then_nothing_is_new(bench: Bench) -> None:
    code, out, error = bench.run()
    assert code == 0, error
    after = load(bench.matrix)
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
    assert "No machine profile resolves differently" in out  # this NVRTC knows none of their GPUs better
    before = bench.text
    assert "is up to date" in bench.run()[1]
    assert bench.text == before


@pytest.mark.parametrize("columns", ["20", "33", "40", "100"])
def test_a_narrow_terminal_changes_nothing(bench: Bench, columns: str) -> None:
    """uv breaks its words as wide as a terminal is, between any two of them."""
    bench.environment["COLUMNS"] = columns
    code, _, error = bench.run()
    assert code == 0, error
    assert "measured: 2" in error


def _pip(folder: Path) -> Path:
    """A folder for PATH with a pip in it, and no uv."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=300)
    return folder / "bin"


def test_pip_s_own_configuration_serves_too_and_gives_the_same_rows(bench: Bench, tmp_path: Path) -> None:
    assert bench.run()[0] == 0
    by_uv = bench.text
    bench.matrix.write_text(SMALL, encoding="utf-8")
    bench.environment["PATH"] = f"{_pip(tmp_path / 'venv')}:{bench.environment['PATH']}"
    code, _, error = bench.run("--index", "pip")
    assert code == 0, error
    assert "through pip" in error
    # pip tells no dates, and that is the whole difference.
    assert undated(bench.text) == undated(by_uv).replace("uploaded: 2026-08-20, pythons: [cp311]", "pythons: [cp311]")


def test_a_withdrawn_release_is_marked_and_a_restored_one_no_longer(bench: Bench, index: LocalIndex) -> None:
    assert bench.run()[0] == 0
    index.yanked["cupy-cuda13x==14.1.1"] = "it's broken, says upstream: wait"
    code, out, error = bench.run()
    assert code == 0, error
    assert "- cupy-cuda13x 14.1.1: yanked: it's broken, says upstream: wait" in out
    assert load(bench.matrix).wheel_lines[0].releases[1].yanked == "it's broken, says upstream: wait"
    index.yanked.clear()
    assert "14.1.1: no longer yanked" in bench.run()[1]
    assert load(bench.matrix).wheel_lines[0].releases[1].yanked is None


def test_what_is_kept_of_another_file_or_another_program_is_measured_again(bench: Bench) -> None:
    kept = bench.matrix.parent / "cache" / "gpuenv" / "refresh"
    kept.mkdir(parents=True)
    (kept / "nvrtc-13.5.json").write_text('{"form": "2", "files": ["00"], "row": {}}', encoding="utf-8")
    (kept / "cupy-cuda13x-14.2.0.json").write_text("{", encoding="utf-8")
    code, _, error = bench.run()
    assert code == 0, error
    assert "CUDA 13.5" in error
    assert "cupy-cuda13x 14.2.0" in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--index", "conda"), "expected uv or pip"),
        (("--again", "cuda/99.9"), "no release and no CUDA minor is called"),
    ],
)
def test_what_cannot_be_meant_is_said(options: tuple[str, ...], message: str, bench: Bench) -> None:
    code, _, error = bench.run(*options)
    assert code == 2
    assert message in error
    assert bench.text == SMALL


def test_a_known_row_is_measured_again_on_demand(bench: Bench) -> None:
    assert bench.run()[0] == 0
    assert bench.run("--again", "cupy-cuda13x/14.2.0")[0] == 0  # now its CUDA is known
    text = bench.text
    spoiled = text.replace("sass: [7.5, 8.0, 9.0], ptx: [9.0]", "sass: [8.0]")
    assert spoiled != text
    bench.matrix.write_text(spoiled, encoding="utf-8")
    code, _, error = bench.run("--again", "cupy-cuda13x/14.2.0")
    assert code == 0, error
    assert bench.text == text
