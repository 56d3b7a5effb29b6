"""A whole refresh against an index of this machine's own: cut short in every way, and gone on with."""

from __future__ import annotations

import shutil
import signal
from typing import TYPE_CHECKING

import pytest

from tests.refresh.workspace import SMALL, Bench, undated

if TYPE_CHECKING:
    from tests.refresh.local_index import LocalIndex


@pytest.fixture(scope="module")
def whole() -> dict[str, str]:
    """What an undisturbed refresh writes; filled by the first who needs it."""
    return {}


def _undisturbed(bench: Bench, whole: dict[str, str]) -> str:
    if not whole:
        assert bench.run()[0] == 0
        whole["text"] = bench.text
        bench.matrix.write_text(SMALL, encoding="utf-8")
        for folder in ("cache", "uv", "tmp"):
            shutil.rmtree(bench.matrix.parent / folder, ignore_errors=True)
        (bench.matrix.parent / "tmp").mkdir()
    return whole["text"]


def _goes_on(bench: Bench, index: LocalIndex, wanted: str) -> None:
    """The matrix is as it was; the next run measures only what is left, and ends as an undisturbed one."""
    assert bench.text == SMALL
    index.held, index.gone, index.gone_after_hold = None, False, False
    index.release.set()
    code, _, error = bench.run()
    assert code == 0, error
    assert "CUDA 13.5: downloading" not in error
    assert "cupy-cuda13x 14.2.0 " in error
    assert undated(bench.text) == undated(wanted)
    kept = bench.matrix.parent / "cache" / "gpuenv" / "refresh"
    assert list(kept.iterdir()) == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_refresh_that_is_killed_in_a_download_goes_on(
    how: signal.Signals, bench: Bench, index: LocalIndex, whole: dict[str, str]
) -> None:
    wanted = _undisturbed(bench, whole)
    index.held = "cupy_cuda13x-14.2.0-cp311-cp311-manylinux2014_x86_64.whl"
    child = bench.start()
    assert index.reached.wait(120)
    child.send_signal(how)
    _, error = child.communicate(timeout=60)
    assert child.returncode == (-how if how is signal.SIGKILL else 130), error
    assert "Traceback" not in error
    _goes_on(bench, index, wanted)


def test_a_network_that_goes_away_leaves_the_matrix_as_it_was(
    bench: Bench, index: LocalIndex, whole: dict[str, str]
) -> None:
    wanted = _undisturbed(bench, whole)
    index.held = "cupy_cuda13x-14.2.0-cp311-cp311-manylinux2014_x86_64.whl"
    index.gone_after_hold = True
    child = bench.start()
    assert index.reached.wait(120)
    index.release.set()
    _, error = child.communicate(timeout=120)
    assert child.returncode == 8, error
    assert "cupy-cuda13x==14.2.0: the package index could not be asked" in error
    assert "the matrix is unchanged" in error
    code, _, error = bench.run()  # still gone
    assert code == 8, error
    _goes_on(bench, index, wanted)


def test_a_disk_that_is_full_leaves_the_matrix_as_it_was(bench: Bench, whole: dict[str, str]) -> None:
    """No file may grow to the size of the matrix: all is measured, and nothing can be written."""
    wanted = _undisturbed(bench, whole)
    code, out, error = bench.run(limit=len(SMALL) - 1000)
    assert code != 0
    assert "written, revision" not in out
    assert "cannot be written: File too large" in error
    assert bench.text == SMALL
    assert [path.name for path in bench.matrix.parent.glob(".m.yaml*")] == []
    code, _, error = bench.run()
    assert code == 0, error
    assert "downloading" not in error.replace("to download", "")
    assert undated(bench.text) == undated(wanted)


def test_a_matrix_that_is_changed_meanwhile_is_not_written_over(bench: Bench, index: LocalIndex) -> None:
    index.held = "cupy_cuda13x-14.2.0-cp311-cp311-manylinux2014_x86_64.whl"
    child = bench.start()
    assert index.reached.wait(120)
    bench.matrix.write_text(SMALL + "# mine\n", encoding="utf-8")
    index.release.set()
    _, error = child.communicate(timeout=900)
    assert child.returncode == 2
    assert "was changed meanwhile" in error
    assert bench.text == SMALL + "# mine\n"
