"""A package cupy that no distribution owns: the rest of an installation, or somebody's own source tree. Pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.doctor.repair import wound_of
from gpuenv.matrix.records import Matrix
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Finding, Severity
from gpuenv.model.reading import known
from gpuenv.model.snapshot import LeftMetadata, Snapshot, Source, SourceState
from tests.doctor.installed_target import SITE, changed, found, healthy

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
        ("/venv", "/venv/other/lib/python3.12/site-packages"),
    ],
)
def test_a_source_tree_is_never_to_be_removed(matrix: Matrix, healthy: Snapshot, prefix: str, folder: str) -> None:
    finding = told(matrix, unowned(healthy, prefix, folder))
    assert finding.cause is Cause.CUPY_NOT_INSTALLED
    assert not any("Remove" in fix.text for fix in finding.fix)


def test_metadata_of_another_release_are_a_warning_that_may_be_mended(matrix: Matrix, healthy: Snapshot) -> None:
    older = LeftMetadata(f"{SITE}/numpy-1.26.4.dist-info", "numpy", "1.26.4")
    snapshot = changed(healthy, left_metadata=(older,), packages={**healthy.target.packages, "numpy": "2.1.0"})
    findings = found(matrix, snapshot)
    assert set(findings) == {"WHL520"}
    finding = findings["WHL520"]
    assert (finding.cause, finding.severity) == (Cause.CORRUPT_INSTALLATION, Severity.WARNING)
    assert finding.title.endswith("numpy 1.26.4 (there is 2.1.0)")
    assert finding.fix[0].text == f"Remove {SITE}/numpy-1.26.4.dist-info."
    wound = wound_of([finding], snapshot)
    assert wound is not None
    assert (wound.cleared, wound.choice, wound.again) == (("numpy",), False, ())


@pytest.mark.parametrize("has_files", [True, False])
def test_metadata_that_tell_nothing_matter_where_files_lie_beside_them(
    matrix: Matrix, healthy: Snapshot, *, has_files: bool
) -> None:
    snapshot = unowned(healthy, "/venv", "/venv/src")
    empty = LeftMetadata(f"{SITE}/cupy_cuda12x-14.2.0.dist-info", "cupy-cuda12x", None, has_files)
    finding = told(matrix, changed(snapshot, left_metadata=(empty,)))
    assert finding.cause is (Cause.CORRUPT_INSTALLATION if has_files else Cause.CUPY_NOT_INSTALLED)


def test_what_tells_nothing_of_another_package_is_no_finding(matrix: Matrix, healthy: Snapshot) -> None:
    empty = LeftMetadata(f"{SITE}/nvidia_foo-1.0.dist-info", "nvidia-foo")
    assert found(matrix, changed(healthy, left_metadata=(empty,))) == {}


@pytest.mark.parametrize("release", ["2.1.0", "2.1"])
def test_the_same_release_told_twice_is_no_finding(matrix: Matrix, healthy: Snapshot, release: str) -> None:
    again = LeftMetadata(f"{SITE}/numpy-2.1.0-py3.12.egg-info", "numpy", release)
    snapshot = changed(healthy, left_metadata=(again,), packages={**healthy.target.packages, "numpy": "2.1.0"})
    assert found(matrix, snapshot) == {}


@pytest.mark.parametrize(
    "path",
    [
        "/opt/lib/numpy-1.26.4.dist-info",
        "/venv/more/numpy-1.26.4.dist-info",
        f"{SITE}/numpy-1.26.4-py3.12.egg-info",
    ],
)
def test_what_no_transaction_removes_is_for_a_person(matrix: Matrix, healthy: Snapshot, path: str) -> None:
    older = LeftMetadata(path, "numpy", "1.26.4")
    snapshot = changed(healthy, left_metadata=(older,), packages={**healthy.target.packages, "numpy": "2.1.0"})
    finding = found(matrix, snapshot)["WHL520"]
    assert path in finding.fix[0].text
    assert not finding.fix[0].safe
    assert wound_of([finding], snapshot) is None


def test_of_several_only_those_inside_are_cleared(matrix: Matrix, healthy: Snapshot) -> None:
    inside = LeftMetadata(f"{SITE}/numpy-1.26.4.dist-info", "numpy", "1.26.4")
    outside = LeftMetadata("/opt/lib/torch-2.0.dist-info", "torch", "2.0")
    packages = {**healthy.target.packages, "numpy": "2.1.0", "torch": "2.1"}
    snapshot = changed(healthy, left_metadata=(inside, outside), packages=packages)
    wound = wound_of([found(matrix, snapshot)["WHL520"]], snapshot)
    assert wound is not None
    assert wound.cleared == ("numpy",)


def test_a_folder_of_windows_is_named(matrix: Matrix, healthy: Snapshot) -> None:
    path = "C:\\venv\\Lib\\site-packages\\cupy_cuda12x-14.2.0.dist-info"
    empty = LeftMetadata(path, "cupy-cuda12x", None, has_files=True)
    finding = told(matrix, changed(unowned(healthy, "C:\\venv", "C:\\else"), left_metadata=(empty,)))
    assert finding.fix[0].text.endswith("from C:\\venv\\Lib\\site-packages.")
