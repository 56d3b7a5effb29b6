"""A package cupy that no distribution owns: the rest of an installation, or somebody's own source tree. Pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.matrix.records import Matrix
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Finding
from gpuenv.model.reading import known
from gpuenv.model.snapshot import Snapshot, Source, SourceState
from tests.doctor.installed_target import changed, found, healthy

__all__ = ["healthy"]


def unowned(healthy: Snapshot, prefix: str, folder: str) -> Snapshot:
    snapshot = changed(
        healthy, cupy=(), prefix=known(prefix, "x"), cupy_module=known(f"{folder}/cupy/__init__.py", "x")
    )
    assumed = tuple(path for path in snapshot.assumed if path != "target.cupy")
    return replace(snapshot, assumed=assumed, sources=(*snapshot.sources, Source("target", SourceState.ANSWERED)))


def told(matrix: Matrix, snapshot: Snapshot) -> Finding:
    return found(matrix, snapshot)["WHL503"]


@pytest.mark.parametrize(
    ("prefix", "folder"),
    [
        ("/venv", "/venv/lib/python3.12/site-packages"),
        ("/venv", "/venv/lib64/python3.12/site-packages"),
        ("/venv", "/venv/lib/pypy3.11/site-packages"),
        ("/usr", "/usr/lib/python3/dist-packages"),
        ("/usr", "/usr/local/lib/python3.11/dist-packages"),
        ("C:/venv", "C:/venv/Lib/site-packages"),
    ],
)
def test_the_rest_of_an_installation_is_removed(matrix: Matrix, healthy: Snapshot, prefix: str, folder: str) -> None:
    finding = told(matrix, unowned(healthy, prefix, folder))
    assert finding.cause is Cause.CORRUPT_INSTALLATION
    assert finding.fix[0].text.endswith(f"from {folder}.")


@pytest.mark.parametrize(
    ("prefix", "folder"),
    [
        ("/venv", "/venv/src"),
        ("/venv", "/venv/src/cupy"),
        ("/usr", "/usr/local/src"),
        ("/usr", "/usr/src/cupy"),
        ("/opt/conda", "/opt/conda/work"),
        ("/opt/conda", "/opt/conda/envs/other/lib/python3.12/site-packages"),
        ("/venv", "/home/me/lib/python3.12/site-packages"),
        ("/venv", "/venv/work/lib/python3.12/site-packages"),
    ],
)
def test_a_source_tree_is_never_to_be_removed(matrix: Matrix, healthy: Snapshot, prefix: str, folder: str) -> None:
    finding = told(matrix, unowned(healthy, prefix, folder))
    assert finding.cause is Cause.CUPY_NOT_INSTALLED
    assert not any("Remove" in fix.text for fix in finding.fix)
