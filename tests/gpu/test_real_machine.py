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
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


def _keep(name: str, text: str) -> None:
    """Leaves what was recorded where the caller can pick it up."""
    folder = os.environ.get("OUT")
    if folder:
        (Path(folder) / name).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    code, text = _run("doctor", "--format", "json")
    _keep("report.json", text)
    found: dict[str, Any] = json.loads(text)
    assert found["exit_code"] == code
    return found


def test_the_machine_is_fit_without_any_error(report: dict[str, Any]) -> None:
    assert [finding for finding in report["findings"] if finding["severity"] == "error"] == []
    assert report["status"] in ("fit", "degraded")


def test_every_source_that_answers_tells_the_same_driver(report: dict[str, Any]) -> None:
    reading = report["snapshot"]["driver"]["version"]
    assert reading["value"]
    assert all(other["value"] == reading["value"] for other in reading["others"])


def test_each_gpu_has_what_the_resolver_needs(report: dict[str, Any]) -> None:
    gpus = report["snapshot"]["gpus"]
    assert gpus
    for gpu in gpus:
        for field in ("uuid", "pci", "name", "compute_capability", "memory_total"):
            assert gpu[field]["value"], field
    assert report["snapshot"]["visible_count"]["value"] >= 1


def test_the_installed_wheel_is_of_a_line_that_fits(report: dict[str, Any]) -> None:
    installed = report["snapshot"]["target"]["cupy"]
    assert len(installed) == 1
    rejected = {
        (entry["candidate"]["name"], entry["candidate"]["version"])
        for entry in report["resolution"]["rejected"]
        if entry["candidate"]["extra"] is None
    }
    assert (installed[0]["distribution"], installed[0]["release"]) not in rejected


def test_a_recorded_machine_gives_the_same_verdict(report: dict[str, Any], tmp_path: Path) -> None:
    recorded = tmp_path / "machine.json"
    command = [sys.executable, "-m", "gpuenv", "probe", "-o", str(recorded), "--python", sys.executable]
    subprocess.run(command, check=True, timeout=120)
    _keep("machine.json", recorded.read_text(encoding="utf-8"))
    code, text = _run("doctor", "--format", "json", "--snapshot", str(recorded))
    replayed = json.loads(text)
    assert (replayed["status"], code) == (report["status"], report["exit_code"])
    assert replayed["resolution"]["wheel"] == report["resolution"]["wheel"]


def _asked(environment: dict[str, str]) -> Snapshot:
    """What a probe writes down."""
    command = [sys.executable, "-m", "gpuenv", "probe", "--format", "json", "--python", sys.executable]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return decode(Snapshot, json.loads(done.stdout))


def test_a_recorded_machine_is_the_same_when_the_stub_replays_it(tmp_path: Path) -> None:
    """The driver's own libraries and the stub's, asked in the same way, but for what changes by the moment."""
    if shutil.which(os.environ.get("CC", "cc")) is None:
        pytest.skip("no C compiler to build the stub driver with")
    recorded = _asked(dict(os.environ))
    table = stub_profile(recorded)
    _keep("stub.txt", "".join(f"{key}={value}\n" for key, value in table.items()))
    profile = tmp_path / "stub.txt"
    profile.write_text("".join(f"{key}={value}\n" for key, value in table.items()), encoding="utf-8")
    library = lay_out(build(tmp_path / "stub"), tmp_path / "lib", str(recorded.driver.version.value), with_smi=True)
    environment = {
        **os.environ,
        **replay_environment(recorded),
        "GPUENV_STUB": str(profile),
        "LD_LIBRARY_PATH": f"{library}:{os.environ.get('LD_LIBRARY_PATH', '')}",
        "PATH": f"{library}:{os.environ['PATH']}",
    }
    again = _asked(environment)
    _keep("replayed.json", json.dumps(stable_facts(again), indent=1))
    _keep("recorded.json", json.dumps(stable_facts(recorded), indent=1))
    assert stable_facts(again) == stable_facts(recorded)


def test_the_gpus_say_what_a_data_centre_gpu_can_say(report: dict[str, Any]) -> None:
    """Not every GPU has every quantity; what is missing has its reason, and the reason is NVML's."""
    for gpu in report["snapshot"]["gpus"]:
        assert gpu["architecture"]["value"]
        assert gpu["compute_mode"]["value"] == "default"
        for part in ("health", "pcie", "fabric"):
            for name, reading in gpu[part].items():
                assert reading["value"] is not None or reading["reason"], f"{part}.{name}"
                assert "makes no sense" not in (reading["reason"] or ""), f"{part}.{name}"
        assert (gpu["ordinal"]["value"] is None) != (gpu["hidden_by"]["value"] is None)
