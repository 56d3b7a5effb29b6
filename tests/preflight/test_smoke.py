"""``--smoke`` of preflight and doctor: real processes on machines with and without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from gpuenv.cli.app import with_level
from gpuenv.cli.gpu_tests import cause_of
from gpuenv.model.causes import Cause
from gpuenv.model.json_schema import json_schema
from gpuenv.report.report import Report
from gpuenv.simulate.layout import SimulatedMachine, materialise
from gpuenv.simulate.profile import TargetSpec, load
from tests.cli.program import gpuenv
from tests.report.readers import READERS

if TYPE_CHECKING:
    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries, Targets

MACHINES = Path(__file__).parents[1] / "machines"
HANGS = "import time\ntime.sleep(600)\n"


@pytest.fixture(scope="module")
def target(targets: Targets) -> Path:
    """An environment with the metadata of CuPy but without its modules, so that every test fails."""
    return targets.interpreter(load(MACHINES / "h200-580.yaml").target)


@pytest.fixture(scope="module")
def machine(
    tmp_path_factory: pytest.TempPathFactory, stub_driver: StubDriver, cuda_libraries: CudaLibraries
) -> SimulatedMachine:
    """One H200."""
    profile = load(MACHINES / "h200-580.yaml")
    return materialise(profile, tmp_path_factory.mktemp("machine"), stub_driver, cuda_libraries.of)


def run_json(command: str, *arguments: str | Path, **variables: str) -> tuple[int, Any]:
    options = ["--no-config"] if command == "preflight" else []
    result = gpuenv(command, *options, *arguments, "--format", "json", "--no-redact", environment=variables)
    assert result.stdout, result.stderr
    data = json.loads(result.stdout)
    Draft202012Validator(json_schema(Report, "gpuenv.report/1")).validate(data)
    return result.returncode, data


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["doctor", "--smoke"], ["doctor", "--smoke=quick"]),
        (["doctor", "--smoke", "--offline"], ["doctor", "--smoke=quick", "--offline"]),
        (["doctor", "--smoke", "deep"], ["doctor", "--smoke", "deep"]),
        (["doctor", "--smoke=normal"], ["doctor", "--smoke=normal"]),
        (["doctor"], ["doctor"]),
    ],
    ids=" ".join,
)
def test_the_smoke_level_is_optional(arguments: list[str], expected: list[str]) -> None:
    assert with_level(arguments) == expected


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("the CUDA context is lost: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure", None),
        ("CUSOLVERError: CUSOLVER_STATUS_NOT_INITIALIZED", Cause.LIBRARY_NOT_INITIALIZED),
    ],
)
def test_a_failed_smoke_test_is_not_explained_as_a_programming_error(message: str, cause: Cause | None) -> None:
    assert cause_of(message) is cause


@pytest.mark.parametrize("command", ["doctor", "preflight"])
def test_an_unwritable_report_is_reported_before_the_tests_run(command: str, tmp_path: Path) -> None:
    page = tmp_path / "nowhere/report.html"
    result = gpuenv(command, "--smoke", "deep", "--format", f"html={page}")
    assert (result.returncode, result.stdout) == (2, "")
    assert f"{page}: cannot be written: there is no folder {page.parent}" in result.stderr


@pytest.mark.parametrize("command", ["doctor", "preflight"])
def test_an_unknown_level_is_reported(command: str) -> None:
    result = gpuenv(command, "--smoke", "thorough")
    assert (result.returncode, result.stdout) == (2, "")
    assert "quick" in result.stderr


@pytest.mark.parametrize("command", ["doctor", "preflight"])
def test_an_injected_fault_is_reported(command: str, target: Path, machine: SimulatedMachine, tmp_path: Path) -> None:
    page = tmp_path / "report.md"
    environment = {**machine.environment, "GPUENV_SMOKE_FAULT": "no-order"}
    code, data = run_json(command, "--smoke", "--python", target, "--format", f"markdown={page}", **environment)
    assert (code, data["smoke"]["fault"]) == (1, "no-order")
    assert "no-order: a deliberately injected fault" in page.read_text(encoding="utf-8")
    options = ["--no-config"] if command == "preflight" else []
    text = gpuenv(command, *options, "--smoke", "--python", target, environment=environment).stdout
    assert "A fault was planted on purpose: no-order." in text
    result = gpuenv(command, "--smoke", environment={"GPUENV_SMOKE_FAULT": "flip-elements"})
    assert (result.returncode, result.stdout) == (2, "")
    assert "did you mean flip-element?" in result.stderr


@pytest.mark.parametrize(
    "options",
    [["--snapshot", "x.json"], ["--no-probe"], ["--assume", "driver=580"], ["--paste", "x.txt"]],
    ids=" ".join,
)
def test_another_machine_cannot_be_tested(options: list[str]) -> None:
    result = gpuenv("doctor", "--smoke", *options)
    assert (result.returncode, result.stdout) == (2, "")
    assert f"--smoke and {options[0]} exclude each other" in result.stderr


@pytest.mark.parametrize("options", [["--no-probe"], ["--assume", "gpu=H100"], ["--snapshot", "a.json"]])
def test_the_origin_of_a_request_to_test_another_machine_is_named(options: list[str], tmp_path: Path) -> None:
    """The configuration file if it has the setting, not the option."""
    config = tmp_path / "gpuenv.toml"
    config.write_text('smoke = "quick"\n', encoding="utf-8")
    result = gpuenv("preflight", "--config", config, *options)
    assert (result.returncode, result.stdout) == (2, "")
    assert f"{config}: smoke and {options[0]} exclude each other" in result.stderr
    assert "--no-config" in result.stderr
    by_option = gpuenv("preflight", "--config", config, "--smoke", *options)
    assert f"gpuenv: --smoke and {options[0]} exclude each other" in by_option.stderr


@pytest.mark.parametrize("command", ["doctor", "preflight"])
def test_smoke_tests_without_a_gpu_are_skipped_for_the_doctor_s_reason(
    command: str, target: Path, tmp_path: Path
) -> None:
    code, data = run_json(command, "--smoke", "--python", target, GPUENV_DRIVER_ROOT=str(tmp_path))
    assert (code, data["status"], data["smoke"]["status"]) == (1, "unfit", "skipped")
    assert {test["status"] for test in data["smoke"]["tests"]} == {"skipped"}
    assert all(test["detail"][:3] in ("GPU", "DRV", "CTR") for test in data["smoke"]["tests"])
    assert not [finding for finding in data["findings"] if finding["code"].startswith("SMK")]


def test_smoke_tests_are_skipped_if_no_gpu_is_expected(targets: Targets, tmp_path: Path) -> None:
    bare = targets.interpreter(TargetSpec(packages=()))
    expected = ("--require", "gpu==0", "--require", "cupy==none")
    code, data = run_json("preflight", "--smoke", *expected, "--python", bare, GPUENV_DRIVER_ROOT=str(tmp_path))
    assert (code, data["status"], data["smoke"]["status"]) == (0, "fit", "skipped")
    assert {test["detail"] for test in data["smoke"]["tests"]} == {"no GPU is expected here"}


def test_smoke_tests_without_cupy_are_skipped_for_the_doctor_s_reason(
    targets: Targets, machine: SimulatedMachine
) -> None:
    code, data = run_json(
        "preflight", "--smoke", "--python", targets.interpreter(TargetSpec(packages=())), **machine.environment
    )
    assert (code, data["smoke"]["status"]) == (1, "skipped")
    assert [finding["cause"] for finding in data["findings"] if finding["primary"]] == ["cupy-not-installed"]
    assert "CuPy is not in the target environment" in data["smoke"]["tests"][0]["detail"]


def test_a_failed_test_is_a_finding_in_every_format(target: Path, machine: SimulatedMachine, tmp_path: Path) -> None:
    """The doctor finds no fault on this machine; only the tests do."""
    names = [name for name in READERS if name != "text"]
    formats = [part for name in names for part in ("--format", f"{name}={tmp_path / name}")]
    arguments: list[str | Path] = ["--no-config", "--smoke", "--python", target, *formats, "-o", tmp_path / "text"]
    result = gpuenv("preflight", *arguments, environment=machine.environment)
    assert result.returncode == 1, result.stderr
    reports = {name: READERS[name](tmp_path / name) for name in READERS}
    expected = reports["json"]
    assert "SMK902" in {code for code, _ in expected.findings}
    for form, parsed in reports.items():
        assert parsed.findings == expected.findings, form
        assert parsed.exit_code in (None, 1), form
        assert "No module named" in parsed.text or form == "prometheus", form


def test_a_level_of_the_configuration_file_is_used(target: Path, machine: SimulatedMachine, tmp_path: Path) -> None:
    (tmp_path / "gpuenv.toml").write_text('smoke = "quick"\n', encoding="utf-8")
    result = gpuenv("preflight", "--python", target, "--format", "json", environment=machine.environment, cwd=tmp_path)
    assert json.loads(result.stdout)["smoke"]["level"] == "quick"
    (tmp_path / "gpuenv.toml").write_text('require = []\nsmoke = "quik"\n', encoding="utf-8")
    result = gpuenv("preflight", environment=machine.environment, cwd=tmp_path)
    assert result.returncode == 2
    assert "gpuenv.toml: line 2: smoke: " in result.stderr
    assert "did you mean quick?" in result.stderr


def test_smoke_tests_end_within_the_timeout(target: Path, machine: SimulatedMachine, tmp_path: Path) -> None:
    """Importing NumPy hangs: the tests end with the timeout, and report only what they tested."""
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy/__init__.py").write_text(HANGS, encoding="utf-8")
    (tmp_path / "numpy/version.py").write_text("", encoding="utf-8")  # or the doctor would not recognize it as NumPy
    launcher = Path(__file__).parents[1] / "smoke/launcher.py"
    environment = {**machine.environment, "CHILD_PYTHONPATH": str(tmp_path), "PATH": os.defpath}
    started = time.monotonic()
    options = ("--smoke", "normal", "--timeout", "9", "--python", target)
    result = _launch(launcher, environment, "preflight", "--no-config", *options)
    duration = time.monotonic() - started
    data = json.loads(result)
    assert data["smoke"]["status"] == "skipped"
    assert {test["trouble"] for test in data["smoke"]["tests"]} <= {"no-time", "not-applicable"}
    (health,) = (test for test in data["smoke"]["tests"] if test["name"] == "health.state")
    assert (health["trouble"], health["detail"]) == ("no-time", "not started: the time for the run is used up")
    assert data["exit_code"] == 8
    assert duration < 9 + 6, duration


def test_the_search_for_gpus_with_cupy_ends_within_the_timeout(target: Path, tmp_path: Path) -> None:
    """The probes find no GPU, and importing CuPy hangs."""
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy/__init__.py").write_text(HANGS, encoding="utf-8")
    launcher = Path(__file__).parents[1] / "smoke/launcher.py"
    environment = {"CHILD_PYTHONPATH": str(tmp_path), "GPUENV_DRIVER_ROOT": str(tmp_path), "PATH": os.defpath}
    started = time.monotonic()
    result = _launch(launcher, environment, "preflight", "--no-config", "--smoke", "--timeout", "6", "--python", target)
    duration = time.monotonic() - started
    assert json.loads(result)["smoke"]["status"] == "skipped"
    assert duration < 6 + 6, duration


def _launch(launcher: Path, environment: dict[str, str], *arguments: str | Path) -> str:
    command = [sys.executable, str(launcher), *map(str, arguments), "--format", "json"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in result.stderr, result.stderr
    return result.stdout


def test_the_smoke_command_has_the_formats_of_a_report(target: Path, machine: SimulatedMachine, tmp_path: Path) -> None:
    formats = [
        part for name in ("junit", "markdown", "html", "gitlab") for part in ("--format", f"{name}={tmp_path / name}")
    ]
    result = gpuenv(
        "smoke", "kernels", "--python", target, *formats, "--format", "json", environment=machine.environment
    )
    assert (result.returncode, json.loads(result.stdout)["schema"]) == (5, "gpuenv.smoke/1")
    for name in ("junit", "markdown", "html", "gitlab"):
        parsed = READERS[name](tmp_path / name)
        assert {code for code, _ in parsed.findings} == {"SMK902"}, name
        assert parsed.exit_code in (None, 5), name
