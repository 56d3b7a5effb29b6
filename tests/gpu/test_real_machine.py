"""The doctor on the machine that runs the tests: needs an NVIDIA GPU, its driver, CuPy and NumPy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
