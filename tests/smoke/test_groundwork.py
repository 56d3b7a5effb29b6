"""What the payload shows without a GPU, and several tests in a row, in an environment that has no CuPy."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from gpuenv.image.engine_records import ContainerEnd
from gpuenv.image.proof import groundwork_proofs
from gpuenv.probe.protocol import parse_facts
from gpuenv.smoke.tasks import PAYLOAD
from tests.image.matrix import choices


def payload(name: str, order: dict[str, Any]) -> tuple[dict[str, Any], ContainerEnd]:
    command = [sys.executable, "-B", str(PAYLOAD / "main.py"), name, json.dumps(order)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return parse_facts(done.stdout), ContainerEnd(done.returncode, done.stdout, done.stderr)


def test_without_cupy_everything_fails_and_says_why() -> None:
    facts, end = payload("--groundwork", {"capabilities": ["9.0"]})
    assert facts["done"] is True
    assert "cupy" in facts["import.cupy"]
    assert "cupy" in facts["compiled.9.0"]
    assert all(facts[f"library.{name}"]["error"] for name in ("cublas", "cufft", "nvrtc"))
    choice = next(entry for entry in choices().values() if not isinstance(entry, str))
    proofs = {proof.name: proof.passed for proof in groundwork_proofs(facts, end, choice)}
    assert proofs["payload"] is True
    assert not any(proofs[name] for name in ("version.cupy", "version.nvrtc", "import.cupy", "compiled.9.0"))


def test_a_payload_that_dies_proves_nothing() -> None:
    choice = next(entry for entry in choices().values() if not isinstance(entry, str))
    for end in (ContainerEnd(139, "", "Segmentation fault"), ContainerEnd(None, "", "")):
        proofs = groundwork_proofs({}, end, choice)
        assert proofs
        assert not any(proof.passed for proof in proofs)


def test_each_of_several_tests_has_its_verdict() -> None:
    order = {"level": "quick", "seed": 1, "size": {}, "fault": None, "uuid": None}
    tests = [{"name": name, "order": order, "visible": "0", "deadline": 60} for name in ("blas.vectors", "no.such")]
    facts, _ = payload("--several", {"tests": tests})
    told = [facts["test.0"], facts["test.1"]]
    assert [entry["name"] for entry in told] == ["blas.vectors", "no.such"]
    assert [entry["status"] for entry in told] == ["failed", "failed"]
    assert all(entry["duration"] > 0 for entry in told)


def test_a_test_that_does_not_end_is_told_as_such() -> None:
    tests = [{"name": "blas.vectors", "order": {}, "visible": "0", "deadline": 0.001}]
    facts, _ = payload("--several", {"tests": tests})
    assert facts["test.0"]["status"] == "timed-out"
