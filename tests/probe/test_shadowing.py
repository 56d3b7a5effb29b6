"""The modules that imports of CuPy, NumPy or cuda.pathfinder would load, determined without importing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.probe.probe_runs import MINIMAL
from tests.probe.pythons import python
from tests.probe.test_environment import facts_from, facts_of
from tests.probe.venvs import interpreter_of, site_packages


def add_cupy(venv: Path) -> None:
    package = site_packages(venv) / "cupy"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit(9)", encoding="utf-8")


def test_the_installed_package_is_reported_without_importing_it(venv: Path) -> None:
    add_cupy(venv)
    assert facts_of(venv).cupy_module == str(site_packages(venv) / "cupy/__init__.py")


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.8", "3.10", "3.12", "3.13"])
def test_a_file_named_cupy_in_the_working_folder_comes_first(tmp_path: Path, version: str) -> None:
    interpreter = python(version)
    (tmp_path / "cupy.py").write_text("raise SystemExit(9)", encoding="utf-8")
    assert facts_from(interpreter, tmp_path)["cupy_module"] == str(tmp_path / "cupy.py")
    done = subprocess.run(
        [str(interpreter), "-c", "import cupy"], cwd=tmp_path, env=MINIMAL, capture_output=True, check=False
    )
    assert done.returncode == 9, "the import does not load that file"


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.8", "3.10", "3.12", "3.13"])
def test_no_file_of_the_working_folder_is_run(tmp_path: Path, version: str) -> None:
    interpreter = python(version)
    for name in ("cupy", "numpy", "importlib", "imp", "types", "random", "re", "glob", "sysconfig", "warnings"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)", encoding="utf-8")
    assert facts_from(interpreter, tmp_path)["cupy_module"] == str(tmp_path / "cupy.py")


def test_a_safe_path_excludes_the_working_folder(venv: Path, tmp_path: Path) -> None:
    if sys.version_info < (3, 11):
        pytest.skip("PYTHONSAFEPATH came with Python 3.11")
    (tmp_path / "cupy.py").touch()
    assert facts_from(interpreter_of(venv), tmp_path, {"PYTHONSAFEPATH": "1"})["cupy_module"] is None


def test_a_folder_without_init_does_not_shadow_the_package(venv: Path, tmp_path: Path) -> None:
    """Such as a checkout named cupy, since namespace packages come last."""
    add_cupy(venv)
    (tmp_path / "checkout/cupy").mkdir(parents=True)
    reported = facts_from(interpreter_of(venv), tmp_path / "checkout")
    assert reported["cupy_module"] == str(site_packages(venv) / "cupy/__init__.py")


def test_a_module_on_pythonpath_is_reported(venv: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/cupy.py").touch()
    facts = facts_of(venv, {"PYTHONPATH": str(tmp_path / "mine")})
    assert facts.cupy_module == str(tmp_path / "mine/cupy.py")


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.8", "3.12", "3.13"])
def test_a_shadowed_numpy_and_one_for_another_interpreter_are_reported(tmp_path: Path, version: str) -> None:
    interpreter = python(version)
    number = version.replace(".", "")
    matching = {"2.7": "so", "3.6": "cpython-36m-x86_64-linux-gnu.so"}.get(
        version, f"cpython-{number}-x86_64-linux-gnu.so"
    )
    (tmp_path / "script").mkdir()
    (tmp_path / "script/numpy.py").write_text("raise SystemExit(9)", encoding="utf-8")
    reported = facts_from(interpreter, tmp_path / "script")
    assert reported["numpy_fault"] == f"{tmp_path}/script/numpy.py is imported in its place"
    core = tmp_path / "packages/numpy/core"
    core.mkdir(parents=True)
    (core.parent / "__init__.py").write_text("raise SystemExit(9)", encoding="utf-8")
    for extension, fault in ((matching, None), ("cpython-39-x86_64-linux-gnu.so", "is for another interpreter")):
        (core / f"_multiarray_umath.{extension}").touch()
        reported = facts_from(interpreter, tmp_path / "packages")
        assert (reported["numpy_fault"] or "").partition("numpy ")[2] == (fault or "")
        (core / f"_multiarray_umath.{extension}").unlink()


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.12", "3.13"])
def test_a_module_that_hides_cuda_pathfinder_is_reported(tmp_path: Path, version: str) -> None:
    interpreter = python(version)
    for place, hides in (("script/cuda.py", True), ("package/cuda/__init__.py", True), ("none/notes.txt", False)):
        file = tmp_path / place
        file.parent.mkdir(parents=True)
        file.write_text("", encoding="utf-8")
        folder = tmp_path / place.split("/", maxsplit=1)[0]
        reported = facts_from(interpreter, folder)["pathfinder_hidden_by"]
        assert reported == (str(file) if hides else None)
    (tmp_path / "package/cuda/pathfinder").mkdir()  # such as in site-packages with an old cuda-python
    assert facts_from(interpreter, tmp_path / "package")["pathfinder_hidden_by"] is None
