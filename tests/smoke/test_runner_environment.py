"""The caller's folder, PYTHONPATH and user site: which of them apply to the tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gpuenv.model.smoke import TestResult
from gpuenv.model.smoke_level import SmokeLevel
from gpuenv.probe.interpreters import target_variables
from gpuenv.smoke.runner import RunSettings, run_tasks
from gpuenv.smoke.tasks import Task, all_tests
from tests.smoke.payload_runs import FIRST_GPU, LONG_DEADLINE


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/a:/b", "/a:/b"),
        ("", None),
        (":/a:", "/a"),
        (".:/a", "/a"),
        ("./:lib/x", "/home/me/project/lib/x"),
        ("..", "/home/me/project/.."),
    ],
)
def test_the_working_folder_is_removed_from_pythonpath(path: str, expected: str | None) -> None:
    environment = target_variables({"PYTHONPATH": path, "OTHER": "x"}, "/scratch", base="/home/me/project")
    assert environment.get("PYTHONPATH") == expected
    assert environment["OTHER"] == "x"


# Files of the caller's working folder must not shadow the imports of the payload, NumPy and CuPy.
MARK = "import os\nopen(os.environ['MARK'], 'a').write(__name__ + ' ')\nraise ImportError('from ' + __file__)\n"
SHADOWS = ("cupy", "random", "json", "types", "tempfile", "sitecustomize", "usercustomize", "harness", "answers")


def run_real_payload(folder: Path, **variables: str) -> TestResult:
    """A test of the real payload in this interpreter, which has NumPy but not CuPy."""
    (test,) = [test for test in all_tests() if test.name == "kernels.raw_kernel"]
    settings = RunSettings(sys.executable, {"PATH": os.defpath, **variables}, str(folder))
    task = Task(test, {"n": 3}, (FIRST_GPU,), 42, 0, LONG_DEADLINE, SmokeLevel.QUICK)
    return run_tasks([task], settings).tests[0]


@pytest.mark.parametrize("path", [None, "", ".", ":", "./:"])
def test_files_of_the_working_folder_are_not_imported(tmp_path: Path, path: str | None) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    for name in SHADOWS:
        (folder / f"{name}.py").write_text(MARK, encoding="utf-8")
    result = run_real_payload(folder, MARK=str(tmp_path / "mark"), **({} if path is None else {"PYTHONPATH": path}))
    assert result.detail == "ModuleNotFoundError: No module named 'cupy'"
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("path", ["lib", "./lib", "absolute"])
def test_pythonpath_applies_to_the_tests(tmp_path: Path, path: str) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/cupy.py").write_text("raise ImportError('from PYTHONPATH')\n", encoding="utf-8")
    result = run_real_payload(tmp_path, PYTHONPATH=str(tmp_path / "lib") if path == "absolute" else path)
    assert result.detail == "ImportError: from PYTHONPATH"


def test_the_user_site_applies_to_the_tests(tmp_path: Path) -> None:
    base = Path(sys.base_prefix) / "bin/python3"  # a virtual environment has no user site
    site = tmp_path / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    site.mkdir(parents=True)
    (site / "numpy.py").write_text("raise ImportError('from the user site')\n", encoding="utf-8")
    (test,) = [test for test in all_tests() if test.name == "kernels.raw_kernel"]
    settings = RunSettings(str(base), {"PATH": os.defpath, "PYTHONUSERBASE": str(tmp_path)}, str(tmp_path))
    task = Task(test, {"n": 3}, (FIRST_GPU,), 42, 0, LONG_DEADLINE, SmokeLevel.QUICK)
    assert run_tasks([task], settings).tests[0].detail == "ImportError: from the user site"


@pytest.mark.parametrize("filters", ["error", "error::FutureWarning"])
def test_warnings_are_not_turned_into_errors(tmp_path: Path, filters: str) -> None:
    """CuPy warns of experimental features, slow paths and missing optional libraries."""
    lib = tmp_path / "lib"
    lib.mkdir()
    source = "import warnings\nwarnings.warn('an experiment', FutureWarning)\nraise ImportError('after the warning')\n"
    (lib / "cupy.py").write_text(source, encoding="utf-8")
    result = run_real_payload(tmp_path, PYTHONPATH=str(lib), PYTHONWARNINGS=filters)
    assert result.detail == "ImportError: after the warning"
