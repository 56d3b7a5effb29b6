"""The caller's folder, path and user site: what is part of the proof and what is not."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gpuenv.model.smoke import TestResult
from gpuenv.model.smoke_level import SmokeLevel
from gpuenv.smoke.runner import RunSettings, child_environment, run_tasks
from gpuenv.smoke.tasks import Task, all_tests
from tests.smoke.running import FIRST, LONG


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("/a:/b", "/a:/b"),
        ("", None),
        (":/a:", "/a"),
        (".:/a", "/a"),
        ("./:lib/x", "/home/me/project/lib/x"),
        ("..", "/home/me/project/.."),
    ],
)
def test_the_working_folder_is_never_on_the_path(given: str, kept: str | None) -> None:
    changed = child_environment({"PYTHONPATH": given, "OTHER": "x"}, "/home/me/project")
    assert changed.get("PYTHONPATH") == kept
    assert changed["OTHER"] == "x"


# What lies in the caller's working folder may not take the place of what the payload, NumPy and CuPy import.
MARK = "import os\nopen(os.environ['MARK'], 'a').write(__name__ + ' ')\nraise ImportError('from ' + __file__)\n"
SHADOWS = ("cupy", "random", "json", "types", "tempfile", "sitecustomize", "usercustomize", "harness", "answers")


def real(folder: Path, **variables: str) -> TestResult:
    """A test of the real payload, in this interpreter, which has NumPy and no CuPy."""
    (test,) = [test for test in all_tests() if test.name == "kernels.raw_kernel"]
    place = RunSettings(sys.executable, {"PATH": os.defpath, **variables}, str(folder))
    whole = Task(test, {"n": 3}, (FIRST,), 42, 0, LONG, SmokeLevel.QUICK)
    return run_tasks([whole], place).tests[0]


@pytest.mark.parametrize("path", [None, "", ".", ":", "./:"])
def test_files_of_the_working_folder_are_never_picked_up(tmp_path: Path, path: str | None) -> None:
    here = tmp_path / "here"
    here.mkdir()
    for name in SHADOWS:
        (here / f"{name}.py").write_text(MARK, encoding="utf-8")
    result = real(here, MARK=str(tmp_path / "mark"), **({} if path is None else {"PYTHONPATH": path}))
    assert result.detail == "ModuleNotFoundError: No module named 'cupy'"
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("path", ["lib", "./lib", "absolute"])
def test_the_caller_s_own_path_is_part_of_what_is_proven(tmp_path: Path, path: str) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/cupy.py").write_text("raise ImportError('from PYTHONPATH')\n", encoding="utf-8")
    result = real(tmp_path, PYTHONPATH=str(tmp_path / "lib") if path == "absolute" else path)
    assert result.detail == "ImportError: from PYTHONPATH"


def test_the_caller_s_user_site_is_part_of_what_is_proven(tmp_path: Path) -> None:
    base = Path(sys.base_prefix) / "bin/python3"  # a virtual environment has no user site
    site = tmp_path / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    site.mkdir(parents=True)
    (site / "numpy.py").write_text("raise ImportError('from the user site')\n", encoding="utf-8")
    (test,) = [test for test in all_tests() if test.name == "kernels.raw_kernel"]
    place = RunSettings(str(base), {"PATH": os.defpath, "PYTHONUSERBASE": str(tmp_path)}, str(tmp_path))
    whole = Task(test, {"n": 3}, (FIRST,), 42, 0, LONG, SmokeLevel.QUICK)
    assert run_tasks([whole], place).tests[0].detail == "ImportError: from the user site"


@pytest.mark.parametrize("wanted", ["error", "error::FutureWarning"])
def test_errors_for_the_warnings_of_the_user_s_program_are_none_here(tmp_path: Path, wanted: str) -> None:
    """CuPy warns of what is experimental, of slow ways, and of optional libraries that are not there."""
    lib = tmp_path / "lib"
    lib.mkdir()
    warns = "import warnings\nwarnings.warn('an experiment', FutureWarning)\nraise ImportError('after the warning')\n"
    (lib / "cupy.py").write_text(warns, encoding="utf-8")
    result = real(tmp_path, PYTHONPATH=str(lib), PYTHONWARNINGS=wanted)
    assert result.detail == "ImportError: after the warning"
