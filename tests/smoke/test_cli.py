"""``gpuenv smoke`` as its users run it, on machines with and without a GPU, real processes throughout."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from gpuenv.model.json_schema import json_schema
from gpuenv.model.smoke import Level, SmokeResult
from gpuenv.simulate.machine import SimulatedMachine, materialise
from gpuenv.simulate.profile import TargetSpec
from gpuenv.simulate.profile import load as load_profile
from gpuenv.smoke.catalogue import all_tests, chosen
from tests.cli.program import MINIMAL, PROGRAM, gpuenv
from tests.support.target import CudaLibraries, Targets

if TYPE_CHECKING:
    from gpuenv.simulate.build import StubDriver

MACHINES = Path(__file__).parents[1] / "machines"
LAUNCHER = Path(__file__).with_name("launcher.py")
WITH_CUPY = TargetSpec(packages=("cupy-cuda12x==14.2.0", "numpy==2.3.4"))


@pytest.fixture(scope="module")
def target(targets: Targets) -> Path:
    """An environment in which CuPy's metadata is, and no module of it."""
    return targets.interpreter(WITH_CUPY)


@pytest.fixture
def machine(tmp_path: Path, stub_driver: StubDriver, cuda_libraries: CudaLibraries) -> SimulatedMachine:
    """Eight H100."""
    folder = tmp_path / "machine"
    folder.mkdir()
    return materialise(load_profile(MACHINES / "h100x8-550.yaml"), folder, stub_driver, cuda_libraries.of)


def smoke(*arguments: str | Path, **variables: str) -> tuple[int, Any]:
    done = run(*arguments, "--format", "json", "--no-redact", **variables)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def run(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, "smoke", *map(str, arguments)]
    done = subprocess.run(
        command, env={**MINIMAL, **variables}, capture_output=True, text=True, check=False, timeout=120
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def started_in(folder: Path, *arguments: str | Path, **variables: str) -> Any:  # noqa: ANN401 - JSON
    """The one test of a run in a working folder; CHILD_PYTHONPATH is what its children have as PYTHONPATH."""
    command = [sys.executable, str(LAUNCHER), "smoke", "kernels", "--gpu", "0", "--format", "json"]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        env={**MINIMAL, **variables},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    (test,) = _of_kernels(json.loads(done.stdout))
    return test


def _of_kernels(result: Any) -> list[Any]:  # noqa: ANN401 - JSON
    """Without the look at the GPUs' health that follows a failure."""
    return [test for test in result["tests"] if test["group"] == "kernels"]


# Without a GPU.


def test_without_a_gpu_every_test_is_skipped_with_the_doctor_s_reason(target: Path, tmp_path: Path) -> None:
    code, result = smoke("--python", target, GPUENV_DRIVER_ROOT=str(tmp_path))
    assert (code, result["exit_code"], result["status"]) == (5, 5, "skipped")
    assert [test["name"] for test in result["tests"]] == [test.name for test in chosen((), (), Level.QUICK)]
    assert {test["status"] for test in result["tests"]} == {"skipped"}
    assert all(test["detail"][:3] in ("GPU", "DRV", "CTR") for test in result["tests"])
    assert all("CuPy says: No module named 'cupy'" in test["detail"] for test in result["tests"])
    Draft202012Validator(json_schema(SmokeResult, "gpuenv.smoke/1")).validate(result)


def test_text_says_what_json_says(target: Path, tmp_path: Path) -> None:
    done = run("--python", target, GPUENV_DRIVER_ROOT=str(tmp_path))
    assert done.returncode == 5
    assert done.stdout.startswith("SKIPPED: nothing was proven.\n")
    assert "13 skipped" in done.stdout
    assert "exit code 5" in done.stdout


def test_without_cupy_the_target_is_unusable(targets: Targets, tmp_path: Path) -> None:
    done = run("--python", targets.interpreter(TargetSpec(packages=())), GPUENV_DRIVER_ROOT=str(tmp_path))
    assert (done.returncode, done.stdout) == (7, "")
    assert "CuPy is not in the target environment" in done.stderr


@pytest.mark.parametrize("broken", [False, True], ids=["without CuPy", "broken"])
def test_an_unusable_target_is_told_in_every_form(targets: Targets, tmp_path: Path, *, broken: bool) -> None:
    interpreter = tmp_path / "python"
    interpreter.write_text("#!/nowhere/python\n", encoding="utf-8")
    interpreter.chmod(0o755)
    named = interpreter if broken else targets.interpreter(TargetSpec(packages=()))
    page = tmp_path / "junit.xml"
    done = run("--python", named, "--format", "json", "--format", f"junit={page}", GPUENV_DRIVER_ROOT=str(tmp_path))
    result = json.loads(done.stdout)
    assert (done.returncode, result["exit_code"], result["status"]) == (7, 7, "skipped")
    assert {test["status"] for test in result["tests"]} == {"skipped"}
    (reason,) = {test["detail"] for test in result["tests"]}
    assert ("cannot be used" if broken else "CuPy is not in the target environment") in reason
    assert done.stderr.startswith("gpuenv: ")
    assert 'errors="1"' in page.read_text(encoding="utf-8")
    Draft202012Validator(json_schema(SmokeResult, "gpuenv.smoke/1")).validate(result)


def test_without_any_python_the_result_is_there_too(tmp_path: Path) -> None:
    done = run("--format", "json", GPUENV_DRIVER_ROOT=str(tmp_path), PATH=str(tmp_path))
    assert (done.returncode, json.loads(done.stdout)["exit_code"]) == (7, 7)
    assert "name another one with --python PATH" in done.stderr


def test_a_target_that_cannot_start_is_unusable(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/nowhere/python\n", encoding="utf-8")
    broken.chmod(0o755)
    done = run("--python", broken, GPUENV_DRIVER_ROOT=str(tmp_path))
    assert (done.returncode, done.stdout) == (7, "")
    assert str(broken) in done.stderr


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["kernel"], "kernels"),
        (["--only", "blas.matmul_f33"], "blas.matmul_f32"),
        (["--demo", "stream-rice"], "stream-race"),
        (["--level", "thorough"], "thorough"),
        (["--python", "/nowhere"], "/nowhere"),
        (["--compare", "/nowhere.json"], "/nowhere.json"),
        (["--repeat", "0"], "0"),
    ],
    ids=" ".join,
)
def test_usage_is_told_with_what_would_be_right(arguments: list[str], word: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert word in done.stderr


def test_an_unknown_fault_is_usage() -> None:
    done = run(GPUENV_SMOKE_FAULT="flip-elements")
    assert done.returncode == 2
    assert "flip-element" in done.stderr


def test_a_file_that_is_no_baseline_is_told(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    for text in ("{", "[]", '{"schema": "gpuenv.report/1"}', '{"schema": "gpuenv.smoke/1"}'):
        path.write_text(text, encoding="utf-8")
        done = run("--compare", path)
        assert (done.returncode, done.stdout) == (2, "")
        assert str(path) in done.stderr


def test_the_list_has_every_test() -> None:
    done = gpuenv("smoke", "--list")
    assert (done.returncode, done.stderr) == (0, "")
    for test in all_tests():
        assert f"  {test.name} " in done.stdout
    one = gpuenv("smoke", "--list", "--only", "blas.matmul_tf32").stdout
    assert "tolerance: " in one
    assert "needs capability:8.0" in one


# With a GPU that the stub driver shows.


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
    assert [test["repeat"] for test in _of_kernels(result)] == [0, 1]
    assert len({test["seed"] for test in _of_kernels(result)}) == 2
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
