"""``gpuenv simulate``: any command on a simulated machine, with the caller's streams and its own exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuenv.data import data_path
from gpuenv.simulate.profile import load
from tests.cli.program import PROGRAM, gpuenv
from tests.simulate.commands import simulate, write_program
from tests.support.target import Targets

COUNT = "import pynvml as n; n.nvmlInit(); print([n.nvmlDeviceGetName(n.nvmlDeviceGetHandleByIndex(i)) for i in range(n.nvmlDeviceGetCount())])"  # noqa: E501

FALLBACK = """
import shutil, subprocess
def device():
    smi = shutil.which("nvidia-smi")
    if smi is None or subprocess.run([smi, "-L"], capture_output=True).returncode:
        return "cpu"
    return "gpu"
print(device())
"""

# As cuda-pathfinder 1.9 finds the headers of a toolkit: next to the folder of the CUDA runtime that the loader finds.
RUNTIME = """
import ctypes, sys
from pathlib import Path
ctypes.CDLL(sys.argv[1])
with open("/proc/self/maps") as maps:
    (runtime,) = {line.split(None, 5)[-1].strip() for line in maps if "libcudart" in line}
print((Path(runtime).parents[1] / "include/cuda_runtime.h").is_file())
"""

WHICH = "import shutil; print(shutil.which({!r}))"


def test_programs_see_the_machine(cache: Path) -> None:
    smi = simulate("h100x8-550", "nvidia-smi", "-L", cache=cache)
    assert smi.returncode == 0, smi.stderr
    assert smi.stdout.count("NVIDIA H100 80GB HBM3") == 8
    nvml = simulate("h100x8-550", sys.executable, "-c", COUNT, cache=cache)
    assert nvml.stdout.count("NVIDIA H100 80GB HBM3") == 8, nvml.stderr


@pytest.mark.parametrize(("name", "expected"), [("h200-580", "gpu"), ("no-gpu", "cpu"), ("mismatch-535", "cpu")])
def test_a_fallback_without_a_gpu_can_be_tested(cache: Path, name: str, expected: str) -> None:
    assert simulate(name, sys.executable, "-c", FALLBACK, cache=cache).stdout == f"{expected}\n"


@pytest.mark.parametrize(
    ("name", "soname"),
    [("t4-470", "libcudart.so.11.0"), ("l4-550", "libcudart.so.12"), ("h200-580", "libcudart.so.13")],
)
def test_the_toolkit_is_found_by_its_runtime(cache: Path, name: str, soname: str) -> None:
    """Else the headers of every simulated toolkit would be missing for CuPy 14, which asks cuda-pathfinder."""
    result = simulate(name, sys.executable, "-c", RUNTIME, soname, cache=cache)
    assert result.stdout == "True\n", result.stderr


def test_gpuenv_on_the_machine_finds_the_options_in_the_caller_s_variables(cache: Path, tmp_path: Path) -> None:
    show = ("sh", "-c", "echo $GPUENV_AS_ROOT $GPUENV_QUIET")
    result = simulate("no-gpu", *show, cache=cache, GPUENV_AS_ROOT="1", GPUENV_QUIET="1")
    assert (result.stdout, result.stderr) == ("1 1\n", "")
    announced = simulate("no-gpu", *show, cache=tmp_path)
    assert (announced.stdout, announced.stderr) == ("\n", "gpuenv: compiling the stub driver, once\n")


def test_programs_on_the_caller_s_path_come_before_those_of_the_system(cache: Path, tmp_path: Path) -> None:
    """As with an activated environment, whose Python must not be replaced by the system's."""
    for name in ("python3", "pytest", "cat"):
        write_program(tmp_path / name, "echo mine")
    path = f"{tmp_path}:{os.environ['PATH']}"
    for name in ("python3", "pytest", "cat"):
        assert simulate("h200-580", name, cache=cache, PATH=path).stdout == "mine\n"
        which = simulate("h200-580", sys.executable, "-c", WHICH.format(name), cache=cache, PATH=path)
        assert which.stdout == f"{tmp_path / name}\n"


def test_the_simulated_nvidia_smi_works_with_any_path(cache: Path, tmp_path: Path) -> None:
    simulate("library-missing", "true", cache=cache)  # compiles the stub driver while a compiler is on PATH
    result = simulate("library-missing", "nvidia-smi", "-L", cache=cache, PATH=str(tmp_path))
    assert (result.returncode, result.stdout.count("GPU 0: ")) == (0, 1), result.stderr


@pytest.mark.parametrize(("name", "expected"), [("no-gpu", "None"), ("h200-580", "root/usr/bin/nvidia-smi")])
def test_the_caller_s_nvidia_smi_is_not_on_the_machine(cache: Path, tmp_path: Path, name: str, expected: str) -> None:
    """Other programs of its folder remain, among them the caller's Python."""
    write_program(tmp_path / "nvidia-smi", "echo GPU 0: of the caller")
    write_program(tmp_path / "python3", "echo mine")
    path = f"{tmp_path}:{os.environ['PATH']}"
    smi = simulate(name, sys.executable, "-c", WHICH.format("nvidia-smi"), cache=cache, PATH=path)
    assert smi.stdout.strip().endswith(expected), smi.stdout
    assert "of the caller" not in simulate(name, "nvidia-smi", "-L", cache=cache, PATH=path).stdout
    assert simulate(name, "python3", cache=cache, PATH=path).stdout == "mine\n"
    assert [entry.name for entry in sorted(tmp_path.iterdir())] == ["nvidia-smi", "python3"]


@pytest.mark.parametrize("name", ["mismatch-535", "no-driver-h100", "gpu-lost", "nouveau-gtx1080ti", "fabric-manager"])
def test_the_doctor_names_the_expected_cause_on_a_simulated_machine(cache: Path, name: str) -> None:
    expected = load(data_path("machines") / f"{name}.yaml").expect.primary
    result = simulate(name, *PROGRAM, "doctor", cache=cache)
    assert result.returncode == 1
    assert re.findall(r"^Fix this first\n  \S+ (\S+)", result.stdout, re.MULTILINE) == [expected], result.stdout


def test_pytest_with_the_plug_in_runs_on_a_simulated_machine(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    test = tmp_path / "test_it.py"
    test.write_text("import pytest\n@pytest.mark.gpuenv\ndef test_it(): pass\n", encoding="utf-8")
    command = (sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", "--rootdir", tmp_path, test)
    result = simulate("mismatch-535", *command, cache=cache)
    assert result.returncode == 0, result.stdout
    assert "driver-library-version-mismatch" in result.stdout
    assert "1 skipped" in result.stdout


@pytest.mark.parametrize(
    ("command", "code", "status"),
    [
        (("smoke", "--no-redact"), 5, None),
        (("doctor", "--smoke"), 8, "unknown"),
        (("preflight", "--no-config", "--smoke"), 8, "unknown"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_gpu_tests_are_skipped_on_a_simulated_machine(
    cache: Path, targets: Targets, command: tuple[str, ...], code: int, status: str | None
) -> None:
    """No kernel can run there, which is neither a finding nor a success."""
    target = targets.interpreter(load(data_path("machines") / "h200-580.yaml").target)
    result = simulate("h200-580", *PROGRAM, *command, "--python", target, "--format", "json", cache=cache)
    answer = json.loads(result.stdout)
    tests = answer.get("smoke", answer)["tests"]
    assert (result.returncode, answer["status"] if status else None) == (code, status), result.stderr
    assert {(test["status"], test["detail"]) for test in tests} == {("skipped", "a simulated GPU runs no kernel")}
    assert [finding for finding in answer.get("findings", []) if finding["severity"] == "error"] == []


def test_gpu_tests_without_a_gpu_are_skipped_for_the_doctor_s_reason(cache: Path, targets: Targets) -> None:
    target = targets.interpreter(load(data_path("machines") / "no-gpu.yaml").target)
    result = simulate("no-gpu", *PROGRAM, "smoke", "--python", target, "--format", "json", cache=cache)
    assert result.returncode == 5
    assert {test["detail"][:6] for test in json.loads(result.stdout)["tests"]} == {"GPU201"}


def test_the_stub_driver_is_compiled_once(tmp_path: Path) -> None:
    first = simulate("h200-580", "true", cache=tmp_path)
    assert (first.returncode, first.stderr) == (0, "gpuenv: compiling the stub driver, once\n")
    (tmp_path / "bin").mkdir()  # without a compiler
    second = simulate("h200-580", "true", cache=tmp_path, PATH=str(tmp_path / "bin"))
    assert (second.returncode, second.stderr) == (0, "")
    assert [path.name.startswith("stub-") for path in (tmp_path / "gpuenv").iterdir()] == [True]


def test_an_unwritable_cache_does_not_prevent_a_run(tmp_path: Path) -> None:
    (tmp_path / "gpuenv").write_text("a file in its place", encoding="utf-8")
    result = simulate("h200-580", "nvidia-smi", "-L", cache=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "H200" in result.stdout


def test_a_compiler_with_more_warnings_builds_the_stub(tmp_path: Path) -> None:
    """A newer compiler has warnings that this one lacks."""
    assert simulate("h200-580", "true", cache=tmp_path, CC="cc -Wtraditional").returncode == 0


def test_a_missing_compiler_is_reported(tmp_path: Path) -> None:
    result = simulate("h200-580", "true", cache=tmp_path, CC="no-such-compiler")
    assert (result.returncode, result.stdout) == (2, "")
    assert "needs a C compiler" in result.stderr
    assert "apt install gcc libc6-dev" in result.stderr
    failing = simulate("h200-580", "true", cache=tmp_path, CC="false")
    assert failing.returncode == 2
    assert "ended with 1" in failing.stderr


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["true"], 0), (["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -TERM $$"], 128 + signal.SIGTERM),
        (["no-such-command"], 127), (["/etc/passwd"], 126), (["sh", "-c", "exit 75"], 75),
    ],
)  # fmt: skip
def test_the_exit_code_is_that_of_the_command(cache: Path, command: list[str], code: int) -> None:
    assert simulate("h200-580", *command, cache=cache).returncode == code


def test_options_after_the_dashes_are_passed_to_the_command(cache: Path) -> None:
    assert simulate("h200-580", "echo", "--list", "-v", "--", "x", cache=cache).stdout == "--list -v -- x\n"


def test_the_callers_gpu_variables_are_removed(cache: Path) -> None:
    result = simulate(
        "h200-580", "env", cache=cache, CUDA_VISIBLE_DEVICES="5", NVIDIA_VISIBLE_DEVICES="void", MINE="yes"
    )
    lines = result.stdout.splitlines()
    assert "MINE=yes" in lines
    assert [line for line in lines if line.startswith(("CUDA_VISIBLE", "NVIDIA_"))] == []
    assert [line for line in lines if line.startswith("HOME=")] == ["HOME=/nonexistent"]


def test_a_run_leaves_no_files_behind(cache: Path, tmp_path: Path) -> None:
    simulate("h200-580", "true", cache=cache, TMPDIR=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_standard_input_reaches_the_command(cache: Path) -> None:
    result = subprocess.run(
        [*PROGRAM, "simulate", "h200-580", "--", "cat"],
        input="through\n",
        env={"XDG_CACHE_HOME": str(cache), "PATH": os.environ["PATH"]},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert result.stdout == "through\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "no machine named"),
        (["h200-580"], "nothing to run"),
        (["h200", "--", "true"], "did you mean h200-580"),
        (["./missing.yaml", "--", "true"], "there is no machine ./missing.yaml"),
        (["zzz", "--", "true"], "gpuenv simulate --list names them"),
    ],
)
def test_an_invalid_call_ends_in_2(arguments: list[str], expected: str) -> None:
    result = gpuenv("simulate", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert expected in result.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_are_forwarded_to_the_command(number: signal.Signals, tmp_path: Path) -> None:
    code = (
        "import signal, sys, time\n"
        f"signal.signal({number.value}, lambda *_: sys.exit(42))\n"
        f"open({str(tmp_path / 'there')!r}, 'w').close()\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen([*PROGRAM, "simulate", "no-gpu", "--", sys.executable, "-c", code])
    deadline = time.monotonic() + 60
    while not (tmp_path / "there").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait(30) == 42
