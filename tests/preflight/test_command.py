"""``gpuenv preflight`` as a process: exit codes, origins of requirements, waiting, and another host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.model.reading import known, missing
from gpuenv.model.snapshot import Snapshot
from gpuenv.simulate.layout import materialise
from gpuenv.simulate.profile import load
from tests.cli.program import gpuenv
from tests.cli.snapshots import FIT, UNFIT, WITHOUT_GPU, replace_facts, write_snapshot

if TYPE_CHECKING:
    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries, Targets

WITHOUT_CUPY = replace_facts(WITHOUT_GPU, target=WITHOUT_GPU.target._replace(cupy=()))
SNAPSHOTS = {"fit": FIT, "unfit": UNFIT, "without-gpu": WITHOUT_GPU, "bare": WITHOUT_CUPY, "empty": Snapshot()}
MACHINES = Path(__file__).parents[1] / "machines"


@pytest.fixture(scope="module")
def snapshot_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("snapshots")
    return {name: write_snapshot(snapshot, folder / f"{name}.json") for name, snapshot in SNAPSHOTS.items()}


def run_json(*arguments: str | Path, cwd: Path | None = None) -> tuple[int, Any]:
    result = gpuenv("preflight", *arguments, "--format", "json", cwd=cwd)
    assert result.stdout, result.stderr
    return result.returncode, json.loads(result.stdout)


@pytest.mark.parametrize(
    ("machine", "options", "code", "status"),
    [
        ("fit", [], 0, "fit"),
        ("fit", ["--require", "gpu>=1", "--require", "cc>=8.0"], 0, "fit"),
        ("fit", ["--require", "gpu>=2"], 1, "unfit"),
        ("fit", ["--require", "nvlink"], 8, "unknown"),
        ("fit", ["--require", "nvlink", "--require", "gpu>=2"], 1, "unfit"),
        ("fit", ["--require", "gpu==0"], 1, "unfit"),
        ("unfit", ["--require", "gpu>=1"], 1, "unfit"),
        ("without-gpu", [], 1, "unfit"),
        ("without-gpu", ["--require", "gpu==0"], 0, "fit"),
        ("without-gpu", ["--expect-no-gpu"], 0, "fit"),
        ("fit", ["--expect-no-gpu"], 1, "unfit"),
        ("without-gpu", ["--require", "gpu==0", "--require", "cc>=8"], 1, "unfit"),
        ("bare", ["--require", "gpu==0"], 1, "unfit"),
        ("bare", ["--require", "gpu==0", "--require", "cupy==none"], 0, "fit"),
        ("empty", [], 8, "unknown"),
        ("empty", ["--require", "gpu==0"], 8, "unknown"),
        ("fit", ["--retry-elsewhere"], 0, "fit"),
        ("fit", ["--retry-elsewhere", "--require", "memory>=200GiB"], 75, "unfit"),
        ("fit", ["--retry-elsewhere", "--require", "cupy>=15"], 1, "unfit"),
        ("fit", ["--retry-elsewhere", "--require", "nvlink"], 8, "unknown"),
        ("without-gpu", ["--retry-elsewhere"], 75, "unfit"),
        ("unfit", ["--retry-elsewhere"], 1, "unfit"),
    ],
)
def test_the_exit_code_is_the_verdict(
    snapshot_files: dict[str, Path], machine: str, options: list[str], code: int, status: str
) -> None:
    exit_code, report = run_json("--no-config", "--snapshot", snapshot_files[machine], *options)
    assert (exit_code, report["exit_code"], report["status"]) == (code, code, status), report["findings"]
    assert (report["retry_elsewhere"] is not None) == (code == 75)
    assert sum(finding["primary"] for finding in report["findings"]) == (status == "unfit")


def test_every_violation_is_a_finding_with_value_and_origin(snapshot_files: dict[str, Path], tmp_path: Path) -> None:
    project = '[tool.gpuenv]\nrequire = [\n  "gpu>=2",\n  "cc>=8.0",\n  "memory>=200GiB",\n]\n'
    (tmp_path / "pyproject.toml").write_text(project, encoding="utf-8")
    code, report = run_json("--snapshot", snapshot_files["fit"], "--require", "driver>=600", cwd=tmp_path)
    assert code == 1
    assert [(r["text"], r["status"], r["source"]) for r in report["requirements"]] == [
        ("gpu>=2", "violated", "pyproject.toml: line 3"),
        ("cc>=8.0", "met", "pyproject.toml: line 4"),
        ("memory>=200GiB", "violated", "pyproject.toml: line 5"),
        ("driver>=600", "violated", "--require"),
    ]
    findings = [(f["code"], f["cause"], f["title"]) for f in report["findings"]]
    assert findings == [
        ("REQ801", "requirement-not-met", "gpu>=2 is required, found 1"),
        ("REQ801", "requirement-not-met", "memory>=200GiB is required, found GPU 0: 80.0 GiB"),
        ("REQ801", "requirement-not-met", "driver>=600 is required, found 550.54.15"),
    ]
    text = gpuenv("preflight", "--snapshot", snapshot_files["fit"], cwd=tmp_path).stdout
    assert text.startswith("UNFIT: gpu>=2 is required, found 1.")
    assert "  NOT MET gpu>=2: found 1 [pyproject.toml: line 3]" in text
    assert "  met     cc>=8.0: found GPU 0: 8.0 [pyproject.toml: line 4]" in text


def test_a_violation_follows_from_an_error_of_the_doctor(snapshot_files: dict[str, Path]) -> None:
    _, report = run_json("--no-config", "--snapshot", snapshot_files["without-gpu"], "--require", "gpu>=1")
    assert [(f["cause"], f["primary"], f["follows_from"]) for f in report["findings"]] == [
        ("no-nvidia-gpu", True, None),
        ("requirement-not-met", False, "GPU201"),
    ]


def test_an_unknown_fact_is_named(snapshot_files: dict[str, Path]) -> None:
    text = gpuenv("preflight", "--no-config", "--snapshot", snapshot_files["fit"], "--require", "nvlink").stdout
    assert text.startswith("UNKNOWN: Whether the machine meets nvlink is undetermined.")
    assert "  unknown nvlink: undetermined: gpus[0].nvlinks (no source reports it) [--require]" in text
    assert "Undetermined" in text


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (["--require", "gpus>=1", "--require", "cc>>8"], ["did you mean gpu,", "cc>>8: expected an operator"]),
        (["--config", "missing.toml"], ["missing.toml: No such file"]),
        (["--config", "x.toml", "--no-config"], ["--config and --no-config"]),
        (["--format", "junitt"], ["--format junitt", "did you mean junit?"]),
        (["--format", "junit="], ["expected FORMAT=FILE"]),
        (["--format", "junit", "--format", "json"], ["two formats for standard output"]),
        (["--format", "junit=x", "--format", "json=x"], ["two formats for x"]),
        (["--wait", "-1"], ["--wait"]),
        (["--history", "missing", "--format", "html"], ["--history missing: No such file"]),
    ],
)
def test_an_invalid_call_exits_with_2(tmp_path: Path, arguments: list[str], messages: list[str]) -> None:
    result = gpuenv("preflight", "--no-probe", *arguments, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert [text for text in messages if text not in result.stderr] == [], result.stderr


def test_a_fault_in_a_file_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "gpuenv.toml").write_text('require = [\n  "gpu>=1",\n  "memroy>=4GiB",\n]\n', encoding="utf-8")
    result = gpuenv("preflight", "--no-probe", cwd=tmp_path)
    assert result.returncode == 2
    assert "gpuenv.toml: line 3: memroy>=4GiB: unknown key 'memroy'; did you mean memory," in result.stderr


def test_list_requirements_prints_the_grammar() -> None:
    result = gpuenv("preflight", "--list-requirements")
    assert (result.returncode, result.stderr) == (0, "")
    for word in ("gpu>=1", "name~=H100|H200", "no-other-processes", "[tool.gpuenv]", "exit code 8"):
        assert word in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert result.stdout.isascii()


def busy(free: int) -> Snapshot:
    gpu = FIT.gpus[0]._replace(memory_free=known(free, "nvml"), processes=known(1, "nvml"))
    return replace_facts(FIT, gpus=(gpu,))


@pytest.mark.parametrize("text", ["free-memory>=40GiB", "no-other-processes"])
def test_a_busy_host_is_a_reason_to_retry_elsewhere(tmp_path: Path, text: str) -> None:
    snapshot_file = write_snapshot(busy(2**30), tmp_path / "busy.json")
    code, report = run_json("--no-config", "--snapshot", snapshot_file, "--require", text, "--retry-elsewhere")
    assert (code, report["retry_elsewhere"]) == (75, f"{text}: another host may meet it")


def test_a_variable_that_hides_the_gpu_is_not_a_reason_to_retry_elsewhere(tmp_path: Path) -> None:
    hidden = FIT.gpus[0]._replace(ordinal=missing("hidden"))
    driver = FIT.driver._replace(cuda_init=known(100, "libcuda"))
    environment = {"CUDA_VISIBLE_DEVICES": "-1"}
    snapshot = replace_facts(
        FIT, gpus=(hidden,), visible_count=known(0, "libcuda"), driver=driver, environment=environment
    )
    code, report = run_json(
        "--no-config", "--snapshot", write_snapshot(snapshot, tmp_path / "hidden.json"), "--retry-elsewhere"
    )
    assert [finding["cause"] for finding in report["findings"]] == ["visible-devices-hide-gpu"]
    assert code == 1


# Waiting for a GPU that becomes free.


def test_preflight_waits_for_a_busy_gpu_until_the_deadline(
    tmp_path: Path, stub_driver: StubDriver, cuda_libraries: CudaLibraries, targets: Targets
) -> None:
    profile = load(MACHINES / "h200-580.yaml")
    profile = replace(profile, stub={**profile.stub, "gpu.0.memory.free": str(2**30)})
    machine = materialise(profile, tmp_path, stub_driver, cuda_libraries.of)
    arguments = ["--no-config", "--python", str(targets.interpreter(profile.target)), "--assume", "python=3.12"]
    arguments += ["--require", "free-memory>=40GiB"]
    table = tmp_path / "stub.txt"
    busy_table = table.read_text(encoding="utf-8")

    started = time.monotonic()
    result = run(arguments, "--wait", "2", environment=machine.environment)
    assert result.returncode == 1
    assert "the GPU is busy; trying again" in result.stderr
    assert "NOT MET free-memory>=40GiB: found GPU 0: 1.0 GiB" in result.stdout
    assert time.monotonic() - started >= 2

    process = subprocess.Popen(
        [sys.executable, "-m", "gpuenv", "preflight", *arguments, "--wait", "120"],
        env=dict(machine.environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert "busy" in process.stderr.readline()
    replacement = tmp_path / "free.txt"
    replacement.write_text(busy_table.replace(f"memory.free={2**30}", f"memory.free={60 * 2**30}"), encoding="utf-8")
    os.replace(replacement, table)  # noqa: PTH105 - atomic
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    assert "met     free-memory>=40GiB: found GPU 0: 60.0 GiB" in out


def run(arguments: list[str], *options: str, environment: Any) -> subprocess.CompletedProcess[str]:  # noqa: ANN401 - a mapping
    return subprocess.run(
        [sys.executable, "-m", "gpuenv", "preflight", *arguments, *options],
        env=dict(environment), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
