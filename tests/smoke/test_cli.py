"""The command ``gpuenv smoke`` in real processes, on machines with and without a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from gpuenv.model.json_schema import json_schema
from gpuenv.model.smoke import SmokeResult
from gpuenv.simulate.layout import SimulatedMachine
from gpuenv.simulate.profile import TargetSpec
from gpuenv.smoke.tasks import SmokeOptions, all_tests, derive_seed, select_tests
from tests.cli.program import MINIMAL, PROGRAM, gpuenv
from tests.smoke.smoke_command import kernel_tests, run, smoke
from tests.support.target import Targets

# Without a GPU.


def test_without_a_gpu_every_test_is_skipped_with_the_doctors_reason(target: Path, tmp_path: Path) -> None:
    code, result = smoke("--python", target, GPUENV_DRIVER_ROOT=str(tmp_path))
    assert (code, result["exit_code"], result["status"]) == (5, 5, "skipped")
    assert [test["name"] for test in result["tests"]] == [test.name for test in select_tests(SmokeOptions())]
    assert {test["status"] for test in result["tests"]} == {"skipped"}
    assert all(test["detail"][:3] in ("GPU", "DRV", "CTR") for test in result["tests"])
    assert all("CuPy reports: No module named 'cupy'" in test["detail"] for test in result["tests"])
    Draft202012Validator(json_schema(SmokeResult, "gpuenv.smoke/1")).validate(result)


def test_the_text_has_the_verdict_and_the_exit_code(target: Path, tmp_path: Path) -> None:
    process = run("--python", target, GPUENV_DRIVER_ROOT=str(tmp_path))
    assert process.returncode == 5
    assert process.stdout.startswith("SKIPPED: no test ran.\n")
    assert "13 skipped" in process.stdout
    assert "exit code 5" in process.stdout


def test_a_run_in_a_deleted_folder_ends_as_elsewhere(target: Path, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    command = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    process = subprocess.run(
        ["sh", "-c", command, "sh", folder, *PROGRAM, "smoke", "--python", target],
        env={**MINIMAL, "GPUENV_DRIVER_ROOT": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (process.returncode, "Traceback" in process.stderr) == (5, False), process.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "streams.async_error"], "makes a kernel fault on purpose: it leaves Xid 31"),
        (["--skip", "no.such"], "there is no test or group named no.such"),
        (["--min-rate", "copy=fast"], "--min-rate copy=fast: expected NAME=80%"),
        (["--fail-on", "gpu-throtled"], "found gpu-throtled; did you mean gpu-throttled"),
        (["--fail-on", "drv107"], "DRV107: not a check of GPU tests\ngpuenv preflight --smoke --fail-on DRV107\n"),
        (["--skip", "health.sustained", "--burn-in", "5"], "--skip health.sustained contradicts another option"),
    ],
)
def test_an_option_that_cannot_be_honoured_is_refused(arguments: list[str], message: str) -> None:
    process = run(*arguments)
    assert (process.returncode, process.stdout) == (2, "")
    assert message in process.stderr


@pytest.mark.parametrize("broken", [False, True], ids=["without CuPy", "broken"])
def test_an_unusable_target_is_reported_in_every_format(targets: Targets, tmp_path: Path, *, broken: bool) -> None:
    interpreter = tmp_path / "python"
    interpreter.write_text("#!/nowhere/python\n", encoding="utf-8")
    interpreter.chmod(0o755)
    python = interpreter if broken else targets.interpreter(TargetSpec(packages=()))
    page = tmp_path / "junit.xml"
    process = run("--python", python, "--format", "json", "--format", f"junit={page}", GPUENV_DRIVER_ROOT=str(tmp_path))
    result = json.loads(process.stdout)
    assert (process.returncode, result["exit_code"], result["status"]) == (7, 7, "skipped")
    assert {test["status"] for test in result["tests"]} == {"skipped"}
    (reason,) = {test["detail"] for test in result["tests"]}
    expected = f"{python} cannot be used" if broken else "CuPy is not in the target environment"
    assert expected in reason
    assert expected in " ".join(process.stderr.split())
    assert 'errors="1"' in page.read_text(encoding="utf-8")
    Draft202012Validator(json_schema(SmokeResult, "gpuenv.smoke/1")).validate(result)


def test_a_result_is_printed_even_without_any_python(tmp_path: Path) -> None:
    process = run("--format", "json", GPUENV_DRIVER_ROOT=str(tmp_path), PATH=str(tmp_path))
    assert (process.returncode, json.loads(process.stdout)["exit_code"]) == (7, 7)
    assert "pass another one with --python PATH" in process.stderr


@pytest.mark.parametrize("has_cupy", [True, False])
def test_a_baseline_is_not_overwritten_if_nothing_was_measured(target: Path, tmp_path: Path, has_cupy: bool) -> None:  # noqa: FBT001 - a case
    """A job on a broken host must keep the baseline of its later runs."""
    baseline = tmp_path / "baseline.json"
    baseline.write_text("an earlier baseline", encoding="utf-8")
    python = target if has_cupy else Path(sys.executable)
    process = run("--python", python, "--save-baseline", baseline, GPUENV_DRIVER_ROOT=str(tmp_path))
    assert process.returncode == (5 if has_cupy else 7)
    assert baseline.read_text(encoding="utf-8") == "an earlier baseline"
    assert f"{baseline} is not written: nothing was measured" in " ".join(process.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "quoted"),
    [
        (["kernel"], "kernels"),
        (["--only", "blas.matmul_f33"], "blas.matmul_f32"),
        (["--demo", "stream-race"], "--demo"),
        (["--level", "thorough"], "thorough"),
        (["--python", "/nowhere"], "/nowhere"),
        (["--compare", "/nowhere.json"], "/nowhere.json"),
        (["--repeat", "0"], "0"),
        (["--format", "json=/nowhere/result.json"], "/nowhere/result.json: cannot be written"),
        (["--save-baseline", "/nowhere/baseline.json"], "/nowhere/baseline.json: cannot be written"),
    ],
    ids=" ".join,
)
def test_a_usage_error_names_the_wrong_value_or_a_correct_one(arguments: list[str], quoted: str) -> None:
    process = run(*arguments)
    assert (process.returncode, process.stdout) == (2, "")
    assert quoted in process.stderr


def test_an_unknown_fault_is_a_usage_error() -> None:
    process = run(GPUENV_SMOKE_FAULT="flip-elements")
    assert process.returncode == 2
    assert "flip-element" in process.stderr


def test_a_file_that_is_not_a_baseline_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    for text in ("{", "[]", '{"schema": "gpuenv.report/1"}', '{"schema": "gpuenv.smoke/1"}'):
        path.write_text(text, encoding="utf-8")
        process = run("--compare", path)
        assert (process.returncode, process.stdout) == (2, "")
        assert str(path) in process.stderr


def test_the_list_has_every_test() -> None:
    process = gpuenv("smoke", "--list")
    assert (process.returncode, process.stderr) == (0, "")
    for test in all_tests():
        assert f"  {test.name} " in process.stdout
    details = gpuenv("smoke", "--list", "--only", "blas.matmul_tf32").stdout
    assert "tolerance: " in details
    assert "needs capability:8.0" in details


# With the GPUs of the stub driver.


def test_each_test_runs_on_each_gpu_in_a_child_that_sees_no_other(target: Path, machine: SimulatedMachine) -> None:
    code, result = smoke("kernels", "multi", "--python", target, **machine.environment)
    uuids = [gpu["uuid"] for gpu in result["gpus"]]
    assert len(set(uuids)) == 8
    tests = [test for test in result["tests"] if test["name"] == "kernels.raw_kernel"]
    assert [test["gpu"] for test in tests] == uuids
    # The target has only the metadata of its packages: each test fails.
    outside_health = [test for test in result["tests"] if test["group"] != "health"]
    assert {test["status"] for test in outside_health} == {"failed"}
    assert {test["detail"] for test in outside_health} == {"ModuleNotFoundError: No module named 'numpy'"}
    assert {test["status"] for test in result["tests"] if test["group"] == "health"} <= {"skipped", "passed"}
    (each,) = [test for test in result["tests"] if test["name"] == "multi.each"]
    assert each["gpu"] is None
    assert (code, result["status"]) == (5, "failed")


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ((), ["kernels.raw_kernel", "health.state"]),
        (("--skip", "health"), ["kernels.raw_kernel"]),
        (("--skip", "health.state"), ["kernels.raw_kernel"]),
    ],
)
def test_a_skipped_health_check_does_not_follow_a_failure(
    target: Path, machine: SimulatedMachine, options: tuple[str, ...], names: list[str]
) -> None:
    _, result = smoke("kernels", "--gpu", "0", "--python", target, *options, **machine.environment)
    assert [test["name"] for test in result["tests"]] == names


def test_a_gpu_is_selected_by_uuid_or_index(target: Path, machine: SimulatedMachine) -> None:
    _, result = smoke("kernels", "--gpu", "3", "--repeat", "2", "--python", target, **machine.environment)
    (gpu,) = result["gpus"]
    assert [test["repeat"] for test in kernel_tests(result)] == [0, 1]
    assert len({test["seed"] for test in kernel_tests(result)}) == 2
    _, again = smoke(
        "kernels", "--gpu", gpu["uuid"].upper(), "--repeat", "2", "--python", target, **machine.environment
    )
    assert again["gpus"] == result["gpus"]
    assert [test["seed"] for test in again["tests"]] == [test["seed"] for test in result["tests"]]
    for name, message in (("9", "--gpu 9 matches none of"), (gpu["uuid"][:7], "matches several GPUs")):
        process = run("--gpu", name, "--python", target, **machine.environment)
        assert (process.returncode, process.stdout) == (2, "")
        assert message in process.stderr


def test_uuids_are_hidden_unless_requested(target: Path, machine: SimulatedMachine) -> None:
    arguments = ("kernels", "--gpu", "0", "--python", target, "--format", "json", "--seed", "1")
    hidden, shown = run(*arguments, **machine.environment), run(*arguments, "--no-redact", **machine.environment)
    result = json.loads(shown.stdout)
    (uuid,) = {gpu["uuid"] for gpu in result["gpus"]}
    assert uuid not in hidden.stdout
    assert result["tests"][0]["seed"] == derive_seed(1, "kernels.raw_kernel", 0)
    Draft202012Validator(json.loads(gpuenv("schema", "smoke").stdout)).validate(result)


def test_every_form_names_the_job_and_files_hide_the_host(
    target: Path, machine: SimulatedMachine, tmp_path: Path
) -> None:
    forms = ("json", "junit", "github", "sarif", "markdown", "html", "prometheus")
    formats = [f"--format={form}={tmp_path / form}" for form in forms]
    job = {"SLURMD_NODENAME": "gpunode07", "SLURM_JOB_ID": "4711", "SLURM_JOB_NAME": "train"}
    result = run("kernels", "--gpu", "0", "--python", target, *formats, **machine.environment, **job)
    assert "\nHost: gpunode07; Slurm job 4711 (train)\n" in result.stdout, result.stderr
    for form in forms:
        text = (tmp_path / form).read_text(encoding="utf-8")
        assert "4711" in text, form
        assert ("gpunode07" in text) == (form == "prometheus"), "the metrics stay on the site"
    document = json.loads((tmp_path / "json").read_text(encoding="utf-8"))
    assert (document["host_name"], document["jobs"][0]["id"]) == ("(redacted)", "4711")
