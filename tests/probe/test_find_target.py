"""The target: the requested environment, the active one, or the interpreter on PATH."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuenv.model.snapshot import SourceState
from gpuenv.probe.target import TargetError, find_interpreter, named_by
from tests.probe.probe_runs import MINIMAL, probe_context, probe_target
from tests.probe.targets import program
from tests.probe.venvs import interpreter_of


def test_an_environment_is_selected_by_its_folder_or_its_interpreter(venv: Path) -> None:
    assert find_interpreter(str(venv), {}) == str(interpreter_of(venv))
    assert find_interpreter(str(interpreter_of(venv)), {}) == str(interpreter_of(venv))


def test_an_interpreter_is_selected_by_a_name_on_path(venv: Path) -> None:
    assert find_interpreter("python3", {"PATH": str(venv / "bin")}) == str(interpreter_of(venv))


def test_an_environment_is_selected_by_its_bin_folder(venv: Path, tmp_path: Path) -> None:
    assert find_interpreter(str(venv / "bin"), {}) == str(interpreter_of(venv))
    assert find_interpreter(f"{venv}/bin/", {}) == str(interpreter_of(venv))
    (tmp_path / "lost" / "bin").mkdir(parents=True)
    (tmp_path / "lost" / "pyvenv.cfg").write_text("home = /nowhere\n", encoding="utf-8")
    assert find_interpreter(str(tmp_path / "lost" / "bin"), {}) == str(tmp_path / "lost" / "bin" / "python3")
    (tmp_path / "empty" / "bin").mkdir(parents=True)
    with pytest.raises(TargetError, match="is a folder without a Python"):
        find_interpreter(str(tmp_path / "empty" / "bin"), {})


@pytest.mark.parametrize(
    ("python", "variables", "expected"),
    [
        (None, {"VIRTUAL_ENV": "/nope"}, "VIRTUAL_ENV"),
        (None, {"CONDA_PREFIX": "/nope", "VIRTUAL_ENV": ""}, "CONDA_PREFIX"),
        ("/lost", {"VIRTUAL_ENV": "/nope"}, "--python"),
        (None, {}, "PATH"),
    ],
)
def test_the_origin_of_the_target_is_its_option_or_variable(
    python: str | None, variables: dict[str, str], expected: str
) -> None:
    assert named_by(python, variables) == expected


def test_a_folder_with_only_bin_python_is_an_environment(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    only = program(tmp_path / "bin" / "python", "#!/bin/sh\n")
    assert find_interpreter(str(tmp_path), {}) == str(only)


@pytest.mark.parametrize("name", ["folder", "missing", "missing/bin/python", "no-such-name-on-path"])
def test_an_invalid_target_is_refused_with_a_hint(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    path = name if name.startswith("no-") else str(tmp_path / name)
    with pytest.raises(TargetError, match="pass an interpreter, a virtual environment or a conda prefix") as refused:
        find_interpreter(path, MINIMAL)
    assert path in str(refused.value)


def test_an_invalid_target_ends_the_doctor() -> None:
    command = [sys.executable, "-m", "gpuenv", "doctor", "--python", ""]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=MINIMAL, timeout=20)
    assert (done.returncode, done.stdout) == (2, "")
    assert "an empty name does not exist; pass an interpreter" in done.stderr


def test_the_home_of_an_unknown_user_is_not_an_environment() -> None:
    with pytest.raises(TargetError):
        find_interpreter("~no-such-user/venv", {})


def test_the_active_environment_takes_precedence_over_path(tmp_path: Path, venv: Path) -> None:
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        assert find_interpreter(None, {variable: str(venv), "PATH": os.defpath}) == str(interpreter_of(venv))
    both = {"VIRTUAL_ENV": str(venv), "CONDA_PREFIX": str(tmp_path), "PATH": os.defpath}
    assert find_interpreter(None, both) == str(interpreter_of(venv))


def test_a_removed_active_environment_is_still_the_target(tmp_path: Path) -> None:
    """The broken environment is the finding, rather than another Python on PATH."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        environment = {variable: str(tmp_path / "gone"), "PATH": os.defpath}
        interpreter = find_interpreter(None, environment)
        assert interpreter == str(tmp_path / "gone/bin/python3")
        assert probe_target(probe_context(environment), interpreter)[1].state is SourceState.FAILED


def test_the_doctor_reports_a_removed_active_environment(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    environment = {**MINIMAL, "VIRTUAL_ENV": str(tmp_path / "gone"), "GPUENV_DRIVER_ROOT": str(tmp_path / "root")}
    command = [sys.executable, "-m", "gpuenv", "doctor", "--format", "json", "--no-redact"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=20)
    report = json.loads(done.stdout)
    executable = report["snapshot"]["target"]["executable"]
    assert (executable["value"], executable["source"]) == (str(tmp_path / "gone/bin/python3"), "VIRTUAL_ENV")
    findings = {finding["code"]: finding for finding in report["findings"]}
    assert done.returncode == 1
    assert findings["ENV401"]["cause"] == "target-environment-broken"
    assert "WHL503" not in findings, "a missing CuPy is not reported as well"


def test_an_empty_variable_does_not_name_an_environment(venv: Path) -> None:
    environment = {"VIRTUAL_ENV": "", "CONDA_PREFIX": "", "PATH": str(venv / "bin")}
    assert find_interpreter(None, environment) == str(interpreter_of(venv))


def test_without_an_environment_and_a_python_on_path_there_is_no_target(tmp_path: Path) -> None:
    assert find_interpreter(None, {"PATH": str(tmp_path)}) is None


@pytest.mark.parametrize("name", [".venv", "venv", ".pixi/envs/default"])
def test_the_error_for_a_project_folder_names_its_environment(tmp_path: Path, venv: Path, name: str) -> None:
    (tmp_path / "project" / name).parent.mkdir(parents=True)
    (tmp_path / "project" / name).symlink_to(venv)
    with pytest.raises(TargetError, match=f"pass the environment in it: .*project/{name}$"):
        find_interpreter(str(tmp_path / "project"), {})
