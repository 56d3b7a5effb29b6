"""The caller's folder and variables during ``gpuenv smoke``: nothing is imported from there or left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuenv.simulate.layout import SimulatedMachine
from tests.cli.program import MINIMAL
from tests.smoke.smoke_command import LAUNCHER, run_in_folder, smoke

MARK = "import os\nopen(os.environ['MARK'], 'a').write(__name__ + '\\n')\nraise ImportError('from ' + __file__)\n"
SHADOWS = ("cupy", "numpy", "random", "tempfile", "importlib", "types", "harness", "answers")


@pytest.mark.parametrize("path", [None, ""])
def test_files_of_the_working_folder_are_not_imported(
    target: Path, machine: SimulatedMachine, tmp_path: Path, path: str | None
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    for name in SHADOWS:
        (folder / f"{name}.py").write_text(MARK, encoding="utf-8")
    environment = {**machine.environment, "MARK": str(tmp_path / "mark")}
    environment |= {} if path is None else {"CHILD_PYTHONPATH": path}
    test = run_in_folder(folder, "--python", target, **environment)
    assert test["detail"] == "ModuleNotFoundError: No module named 'numpy'"
    mark = tmp_path / "mark"
    assert not mark.exists()


def test_pythonpath_applies_to_the_tests(target: Path, machine: SimulatedMachine, tmp_path: Path) -> None:
    library = tmp_path / "work/lib"
    library.mkdir(parents=True)
    (library / "numpy.py").write_text("raise ImportError('from PYTHONPATH')\n", encoding="utf-8")
    for path in (str(library), "lib"):
        environment = {**machine.environment, "CHILD_PYTHONPATH": path}
        test = run_in_folder(tmp_path / "work", "--python", target, **environment)
        assert test["detail"] == "ImportError: from PYTHONPATH"


def test_a_run_leaves_no_file_behind(target: Path, machine: SimulatedMachine, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    before = sorted(target.parents[1].rglob("*"))
    smoke("kernels", "--gpu", "0", "--python", target, **machine.environment, TMPDIR=str(temporary))
    assert list(temporary.iterdir()) == []
    assert sorted(target.parents[1].rglob("*")) == before


SLEEPER = """import os, time
try:
    os.close(os.open(os.environ["FIRST"], os.O_CREAT | os.O_EXCL))
except FileExistsError:
    open(os.path.join(os.environ["MARK"], str(os.getpid())), "w").close()
    time.sleep(60)
raise ImportError("no NumPy for the first")
"""


def test_an_interrupted_run_reports_its_results_and_leaves_nothing(
    target: Path, machine: SimulatedMachine, tmp_path: Path
) -> None:
    """A NumPy first on the path fails to import in one test and hangs in the others."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/numpy.py").write_text(SLEEPER, encoding="utf-8")
    marks = tmp_path / "marks"
    marks.mkdir()
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    folders = {"MARK": str(marks), "TMPDIR": str(temporary), "FIRST": str(tmp_path / "first")}
    variables = {"CHILD_PYTHONPATH": str(tmp_path / "lib"), **folders}
    environment = {**MINIMAL, **machine.environment, **variables}
    command = [sys.executable, str(LAUNCHER), "smoke", "--python", str(target), "--format", "json", "--no-redact"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 40
    while not list(marks.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1)  # for the first to end
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=20)
    assert process.returncode == 130
    assert stderr.endswith("gpuenv: interrupted\n")
    result = json.loads(stdout)
    assert (result["exit_code"], result["status"]) == (130, "failed")
    (failed,) = [test for test in result["tests"] if test["status"] == "failed"]
    assert "no NumPy for the first" in failed["detail"]
    others = [test for test in result["tests"] if test["name"] != failed["name"] or test["gpu"] != failed["gpu"]]
    assert others
    assert {(test["status"], test["trouble"]) for test in others} == {("skipped", "interrupted")}
    assert list(temporary.iterdir()) == []
    time.sleep(0.2)
    assert [path.name for path in marks.iterdir() if Path("/proc", path.name, "stat").exists()] == []


OUTSIDE_TESTS = (
    "import sys\nif not any(word.endswith('main.py') for word in sys.argv):\n    raise ImportError('none')\n"
)


@pytest.mark.parametrize("command", ["doctor", "preflight"])
def test_a_report_interrupted_during_its_tests_leaves_nothing(
    target: Path, machine: SimulatedMachine, tmp_path: Path, command: str
) -> None:
    folders = {name: tmp_path / name for name in ("lib", "MARK", "TMPDIR")}
    for folder in folders.values():
        folder.mkdir()
    (folders["lib"] / "numpy.py").write_text(OUTSIDE_TESTS + SLEEPER, encoding="utf-8")
    variables = {"CHILD_PYTHONPATH": str(folders.pop("lib")), "FIRST": str(tmp_path / "first")}
    environment = {**MINIMAL, **machine.environment, **variables, **{name: str(at) for name, at in folders.items()}}
    words = [sys.executable, str(LAUNCHER), command, "--smoke", "--python", str(target), "--format", "json"]
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(folders["MARK"].iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    marks = list(folders["MARK"].iterdir())
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=20)
    assert marks
    assert (process.returncode, stdout) == (130, "")
    assert stderr.endswith("gpuenv: interrupted\n")
    assert list(folders["TMPDIR"].iterdir()) == []
    time.sleep(0.2)
    assert [mark.name for mark in folders["MARK"].iterdir() if Path("/proc", mark.name, "stat").exists()] == []
