"""Interrupted refreshes against a local index, and their continuation."""

from __future__ import annotations

import shutil
import signal
from typing import TYPE_CHECKING

import pytest

from tests.refresh.workspace import SMALL, Workspace, without_dates

if TYPE_CHECKING:
    from tests.refresh.local_index import LocalIndex


@pytest.fixture(scope="module")
def refreshed() -> dict[str, str]:
    """Caches the matrix that an undisturbed refresh writes."""
    return {}


def _undisturbed(workspace: Workspace, refreshed: dict[str, str]) -> str:
    if not refreshed:
        assert workspace.run()[0] == 0
        refreshed["text"] = workspace.text
        workspace.matrix.write_text(SMALL, encoding="utf-8")
        for folder in ("cache", "uv", "tmp"):
            shutil.rmtree(workspace.matrix.parent / folder, ignore_errors=True)
        (workspace.matrix.parent / "tmp").mkdir()
    return refreshed["text"]


def _assert_resumes(workspace: Workspace, index: LocalIndex, expected: str) -> None:
    """Asserts that the matrix is unchanged, and that the next run measures only the remaining rows."""
    assert workspace.text == SMALL
    index.delayed, index.down, index.down_after_delay = None, False, False
    index.release.set()
    code, _, error = workspace.run()
    assert code == 0, error
    assert "CUDA 13.5: downloading" not in error
    assert "cupy-cuda13x 14.2.0 " in error
    assert without_dates(workspace.text) == without_dates(expected)
    cache = workspace.matrix.parent / "cache" / "gpuenv" / "refresh"
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_refresh_killed_during_a_download_is_resumed(
    signum: signal.Signals, workspace: Workspace, index: LocalIndex, refreshed: dict[str, str]
) -> None:
    expected = _undisturbed(workspace, refreshed)
    index.delayed = "cupy_cuda13x-14.2.0-cp311-cp311-manylinux2014_x86_64.whl"
    child = workspace.start()
    assert index.reached.wait(120)
    child.send_signal(signum)
    _, error = child.communicate(timeout=60)
    assert child.returncode == (-signum if signum is signal.SIGKILL else 130), error
    assert "Traceback" not in error
    _assert_resumes(workspace, index, expected)


def test_a_network_failure_leaves_the_matrix_unchanged(
    workspace: Workspace, index: LocalIndex, refreshed: dict[str, str]
) -> None:
    expected = _undisturbed(workspace, refreshed)
    index.delayed = "cupy_cuda13x-14.2.0-cp311-cp311-manylinux2014_x86_64.whl"
    index.down_after_delay = True
    child = workspace.start()
    assert index.reached.wait(120)
    index.release.set()
    _, error = child.communicate(timeout=120)
    assert child.returncode == 8, error
    assert "cupy-cuda13x==14.2.0: the package index could not be queried" in error
    assert "the matrix is unchanged" in error
    code, _, error = workspace.run()  # still down
    assert code == 8, error
    _assert_resumes(workspace, index, expected)


def test_a_full_disk_leaves_the_matrix_unchanged(workspace: Workspace, refreshed: dict[str, str]) -> None:
    """A file size limit below the size of the matrix prevents the write after all measurements.

    A comment makes the matrix larger than the scripts that uv unpacks.
    """
    expected = _undisturbed(workspace, refreshed)
    comment = "# Measured on a machine of our own.\n" * 4000
    workspace.matrix.write_text(comment + SMALL, encoding="utf-8")
    code, out, error = workspace.run(limit=len(comment + SMALL) - 1000)
    assert code != 0
    assert "written, revision" not in out
    assert "cannot be written: File too large" in error
    assert workspace.text == comment + SMALL
    assert [path.name for path in workspace.matrix.parent.glob(".m.yaml*")] == []
    code, _, error = workspace.run()
    assert code == 0, error
    assert "downloading" not in error.replace("to download", "")
    assert without_dates(workspace.text) == without_dates(comment + expected)


def test_a_matrix_changed_during_the_refresh_is_not_overwritten(workspace: Workspace, index: LocalIndex) -> None:
    index.delayed = "cupy_cuda13x-14.2.0-cp311-cp311-manylinux2014_x86_64.whl"
    child = workspace.start()
    assert index.reached.wait(120)
    workspace.matrix.write_text(SMALL + "# mine\n", encoding="utf-8")
    index.release.set()
    _, error = child.communicate(timeout=900)
    assert child.returncode == 2
    assert "was changed meanwhile" in error
    assert workspace.text == SMALL + "# mine\n"
