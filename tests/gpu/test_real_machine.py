"""The doctor on the machine that runs the tests: needs an NVIDIA GPU, its driver, CuPy and NumPy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuenv.model.codec import decode
from gpuenv.model.snapshot import Snapshot
from gpuenv.simulate.stub_driver import build, lay_out
from tests.support.stub_profile import replay_environment, stable_facts, stub_profile

pytestmark = pytest.mark.gpu


def _run(*arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "gpuenv", *arguments, "--python", sys.executable]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in process.stderr
    return process.returncode, process.stdout


def _save(name: str, text: str) -> None:
    """Write a file into the folder for results, if the caller names one."""
    folder = os.environ.get("OUT")
    if folder:
        (Path(folder) / name).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    code, text = _run("doctor", "--format", "json")
    _save("report.json", text)
    parsed: dict[str, Any] = json.loads(text)
    assert parsed["exit_code"] == code
    return parsed


def test_the_machine_is_fit_without_errors(report: dict[str, Any]) -> None:
    assert [finding for finding in report["findings"] if finding["severity"] == "error"] == []
    assert report["status"] in ("fit", "degraded")


def test_all_sources_report_the_same_driver(report: dict[str, Any]) -> None:
    reading = report["snapshot"]["driver"]["version"]
    assert reading["value"]
    assert all(other["value"] == reading["value"] for other in reading["others"])


def test_each_gpu_has_the_facts_that_the_resolver_needs(report: dict[str, Any]) -> None:
    gpus = report["snapshot"]["gpus"]
    assert gpus
    for gpu in gpus:
        for field in ("uuid", "pci", "name", "compute_capability", "memory_total"):
            assert gpu[field]["value"], field
    assert report["snapshot"]["visible_count"]["value"] >= 1


def test_the_installed_wheel_is_not_rejected(report: dict[str, Any]) -> None:
    installed = report["snapshot"]["target"]["cupy"]
    assert len(installed) == 1
    rejected = {
        (entry["candidate"]["name"], entry["candidate"]["version"])
        for entry in report["resolution"]["rejected"]
        if entry["candidate"]["extra"] is None
    }
    assert (installed[0]["distribution"], installed[0]["release"]) not in rejected


def test_a_snapshot_gives_the_same_verdict(report: dict[str, Any], tmp_path: Path) -> None:
    snapshot_file = tmp_path / "machine.json"
    command = [sys.executable, "-m", "gpuenv", "probe", "-o", str(snapshot_file), "--python", sys.executable]
    subprocess.run(command, check=True, timeout=120)
    _save("machine.json", snapshot_file.read_text(encoding="utf-8"))
    code, text = _run("doctor", "--format", "json", "--snapshot", str(snapshot_file))
    replayed = json.loads(text)
    assert (replayed["status"], code) == (report["status"], report["exit_code"])
    assert replayed["resolution"]["wheel"] == report["resolution"]["wheel"]


def _probe(environment: dict[str, str]) -> Snapshot:
    """The snapshot of a probe."""
    command = [sys.executable, "-m", "gpuenv", "probe", "--format", "json", "--python", sys.executable]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return decode(Snapshot, json.loads(process.stdout))


def test_the_stub_driver_replays_a_snapshot_unchanged(tmp_path: Path) -> None:
    """The driver's libraries and those of the stub give equal facts, except for changing ones."""
    if shutil.which(os.environ.get("CC", "cc")) is None:
        pytest.skip("no C compiler to build the stub driver with")
    snapshot = _probe(dict(os.environ))
    table = stub_profile(snapshot)
    _save("stub.txt", "".join(f"{key}={value}\n" for key, value in table.items()))
    profile = tmp_path / "stub.txt"
    profile.write_text("".join(f"{key}={value}\n" for key, value in table.items()), encoding="utf-8")
    library = lay_out(build(tmp_path / "stub"), tmp_path / "lib", str(snapshot.driver.version.value), with_smi=True)
    environment = {
        **os.environ,
        **replay_environment(snapshot),
        "GPUENV_STUB": str(profile),
        "LD_LIBRARY_PATH": f"{library}:{os.environ.get('LD_LIBRARY_PATH', '')}",
        "PATH": f"{library}:{os.environ['PATH']}",
    }
    replayed = _probe(environment)
    _save("replayed.json", json.dumps(stable_facts(replayed), indent=1))
    _save("recorded.json", json.dumps(stable_facts(snapshot), indent=1))
    assert stable_facts(replayed) == stable_facts(snapshot)


def test_each_gpu_has_its_quantities_or_a_reason(report: dict[str, Any]) -> None:
    """Not every GPU has every quantity; a missing one has NVML's reason."""
    for gpu in report["snapshot"]["gpus"]:
        assert gpu["architecture"]["value"]
        assert gpu["compute_mode"]["value"] == "default"
        for part in ("health", "pcie", "fabric"):
            for name, reading in gpu[part].items():
                assert reading["value"] is not None or reading["reason"], f"{part}.{name}"
                assert "makes no sense" not in (reading["reason"] or ""), f"{part}.{name}"
        assert (gpu["ordinal"]["value"] is None) != (gpu["hidden_by"]["value"] is None)
