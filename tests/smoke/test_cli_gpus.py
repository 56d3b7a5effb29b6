"""``gpuenv smoke`` on GPUs that the stub driver shows: which are tested, with what, and what is left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from gpuenv.simulate.machine import SimulatedMachine
from tests.cli.program import MINIMAL, gpuenv
from tests.smoke.smoking import LAUNCHER, machine, of_kernels, run, smoke, started_in, target

__all__ = ["machine", "target"]


def test_each_test_runs_on_each_gpu_in_a_child_that_sees_it_alone(target: Path, machine: SimulatedMachine) -> None:
    code, result = smoke("kernels", "multi", "--python", target, **machine.environment)
    uuids = [gpu["uuid"] for gpu in result["gpus"]]
    assert len(set(uuids)) == 8
    tests = [test for test in result["tests"] if test["name"] == "kernels.raw_kernel"]
    assert [test["gpu"] for test in tests] == uuids
    # The modules are not really there: each test fails, none passes.
    run = [test for test in result["tests"] if test["group"] != "health"]
    assert {test["status"] for test in run} == {"failed"}
    assert {test["detail"] for test in run} == {"ModuleNotFoundError: No module named 'numpy'"}
    assert {test["status"] for test in result["tests"] if test["group"] == "health"} <= {"skipped", "passed"}
    (each,) = [test for test in result["tests"] if test["name"] == "multi.each"]
    assert each["gpu"] is None
    assert (code, result["status"]) == (5, "failed")


def test_a_gpu_is_named_by_uuid_or_index(target: Path, machine: SimulatedMachine) -> None:
    _, result = smoke("kernels", "--gpu", "3", "--repeat", "2", "--python", target, **machine.environment)
    (gpu,) = result["gpus"]
    assert [test["repeat"] for test in of_kernels(result)] == [0, 1]
    assert len({test["seed"] for test in of_kernels(result)}) == 2
    _, again = smoke(
        "kernels", "--gpu", gpu["uuid"].upper(), "--repeat", "2", "--python", target, **machine.environment
    )
    assert again["gpus"] == result["gpus"]
    assert [test["seed"] for test in again["tests"]] == [test["seed"] for test in result["tests"]]
    for name, words in (("9", "--gpu 9 is none of"), (gpu["uuid"][:7], "stands for several GPUs")):
        done = run("--gpu", name, "--python", target, **machine.environment)
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr


def test_a_seed_changes_every_input(target: Path, machine: SimulatedMachine) -> None:
    arguments = ("kernels", "--gpu", "0", "--python", target)
    seeds = [
        smoke(*arguments, "--seed", seed, **machine.environment)[1]["tests"][0]["seed"] for seed in ("1", "1", "2")
    ]
    assert seeds[0] == seeds[1] != seeds[2]


def test_uuids_are_hidden_unless_told_otherwise(target: Path, machine: SimulatedMachine) -> None:
    arguments = ("kernels", "--gpu", "0", "--python", target, "--format", "json")
    hidden, shown = run(*arguments, **machine.environment), run(*arguments, "--no-redact", **machine.environment)
    (uuid,) = {gpu["uuid"] for gpu in json.loads(shown.stdout)["gpus"]}
    assert uuid not in hidden.stdout


# What is beside the caller is not what is proven.

MARK = "import os\nopen(os.environ['MARK'], 'a').write(__name__ + '\\n')\nraise ImportError('from ' + __file__)\n"
SHADOWS = ("cupy", "numpy", "random", "tempfile", "importlib", "types", "harness", "answers")


@pytest.mark.parametrize("path", [None, ""])
def test_files_of_the_working_folder_are_never_picked_up(
    target: Path, machine: SimulatedMachine, tmp_path: Path, path: str | None
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    for name in SHADOWS:
        (here / f"{name}.py").write_text(MARK, encoding="utf-8")
    environment = {**machine.environment, "MARK": str(tmp_path / "mark")}
    environment |= {} if path is None else {"CHILD_PYTHONPATH": path}
    test = started_in(here, "--python", target, **environment)
    assert test["detail"] == "ModuleNotFoundError: No module named 'numpy'"
    marked = tmp_path / "mark"
    assert not marked.exists()


def test_the_caller_s_own_path_is_part_of_what_is_proven(
    target: Path, machine: SimulatedMachine, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "work/lib"
    elsewhere.mkdir(parents=True)
    (elsewhere / "numpy.py").write_text("raise ImportError('from PYTHONPATH')\n", encoding="utf-8")
    for path in (str(elsewhere), "lib"):
        environment = {**machine.environment, "CHILD_PYTHONPATH": path}
        test = started_in(tmp_path / "work", "--python", target, **environment)
        assert test["detail"] == "ImportError: from PYTHONPATH"


def test_a_run_leaves_no_file_behind(target: Path, machine: SimulatedMachine, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    before = sorted(target.parents[1].rglob("*"))
    smoke("kernels", "--gpu", "0", "--python", target, **machine.environment, TMPDIR=str(temporary))
    assert list(temporary.iterdir()) == []
    assert sorted(target.parents[1].rglob("*")) == before


def test_the_schema_describes_what_is_printed(target: Path, machine: SimulatedMachine) -> None:
    _, result = smoke("kernels", "--gpu", "0", "--python", target, **machine.environment)
    printed = json.loads(gpuenv("schema", "smoke").stdout)
    Draft202012Validator(printed).validate(result)


SLEEPER = "import os, time\nopen(os.path.join(os.environ['MARK'], str(os.getpid())), 'w').close()\ntime.sleep(60)\n"


def test_an_interrupted_run_ends_at_once_and_leaves_nothing(
    target: Path, machine: SimulatedMachine, tmp_path: Path
) -> None:
    """NumPy, as it is met first on the path, never comes to an end."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/numpy.py").write_text(SLEEPER, encoding="utf-8")
    marks = tmp_path / "marks"
    marks.mkdir()
    environment = {**MINIMAL, **machine.environment, "CHILD_PYTHONPATH": str(tmp_path / "lib"), "MARK": str(marks)}
    command = [sys.executable, str(LAUNCHER), "smoke", "--python", str(target)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 40
    while not list(marks.iterdir()) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=20)
    assert (process.returncode, said) == (130, "")
    time.sleep(0.2)
    assert [path.name for path in marks.iterdir() if Path("/proc", path.name, "stat").exists()] == []
