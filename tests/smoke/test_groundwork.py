"""The payload without a GPU or CuPy: its checks of the environment, and several tests in one process."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from gpuenv.image.build.verify import groundwork_verifications
from gpuenv.image.engine.engine_answers import ContainerEnd
from gpuenv.probe.protocol import parse_facts
from gpuenv.smoke.tasks import PAYLOAD
from tests.image.matrix import choices


def payload(name: str, request: dict[str, Any]) -> tuple[dict[str, Any], ContainerEnd]:
    command = [sys.executable, "-B", str(PAYLOAD / "main.py"), name, json.dumps(request)]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return parse_facts(process.stdout), ContainerEnd(process.returncode, process.stdout, process.stderr)


def test_every_check_fails_with_a_reason_without_cupy() -> None:
    facts, end = payload("--groundwork", {"capabilities": ["9.0"]})
    assert facts["done"] is True
    assert "cupy" in facts["import.cupy"]
    assert "cupy" in facts["compiled.9.0"]
    assert all(facts[f"library.{name}"]["error"] for name in ("cublas", "cufft", "nvrtc"))
    choice = next(entry for entry in choices().values() if not isinstance(entry, str))
    verifications = {entry.name: entry.passed for entry in groundwork_verifications(facts, end, choice)}
    assert verifications["payload"] is True
    assert not any(verifications[name] for name in ("version.cupy", "version.nvrtc", "import.cupy", "compiled.9.0"))


def test_a_crashed_payload_verifies_nothing() -> None:
    choice = next(entry for entry in choices().values() if not isinstance(entry, str))
    for end in (ContainerEnd(139, "", "Segmentation fault"), ContainerEnd(None, "", "")):
        verifications = groundwork_verifications({}, end, choice)
        assert verifications
        assert not any(entry.passed for entry in verifications)


def test_each_of_several_tests_has_its_verdict() -> None:
    request = {"level": "quick", "seed": 1, "size": {}, "fault": None, "uuid": None}
    tests = [{"name": name, "request": request, "visible": "0", "deadline": 60} for name in ("blas.vectors", "no.such")]
    facts, _ = payload("--several", {"tests": tests})
    results = [facts["test.0"], facts["test.1"]]
    assert [entry["name"] for entry in results] == ["blas.vectors", "no.such"]
    assert [entry["status"] for entry in results] == ["failed", "failed"]
    assert all(entry["duration"] > 0 for entry in results)


def test_a_test_that_does_not_end_has_timed_out() -> None:
    tests = [{"name": "blas.vectors", "request": {}, "visible": "0", "deadline": 0.001}]
    facts, _ = payload("--several", {"tests": tests})
    assert facts["test.0"]["status"] == "timed-out"
