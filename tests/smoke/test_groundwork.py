"""The payload without a GPU or CuPy: its checks of the environment, and several tests in one process."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from gpuenv.image.build.verify import groundwork_verifications, verify_gpus
from gpuenv.image.engine.engine_answers import ContainerEnd
from gpuenv.model.redaction import hide_secrets
from gpuenv.probe.protocol import parse_facts
from gpuenv.smoke.payload.failures import first_line
from gpuenv.smoke.tasks import PAYLOAD
from tests.image.matrix import choices
from tests.support.planted_secrets import LONG_URL, shown_parts


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


def test_an_error_in_a_container_is_not_cut_within_a_secret() -> None:
    choice = next(entry for entry in choices().values() if not isinstance(entry, str))
    error = first_line(OSError(f"cannot open {'a' * 300} {LONG_URL.line}"))
    facts = {"done": True, "import.cupy": error, "library.nvrtc": {"error": error}}
    verifications = groundwork_verifications(facts, ContainerEnd(0, "", ""), choice)
    found = verify_gpus(["H100"], [{"name": "a", "visible": "0"}], {"test.0": {"status": "failed", "detail": error}})
    shown = str((verifications, found))
    assert "cannot open" in shown
    assert shown_parts(LONG_URL, hide_secrets(shown)) == []


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


PASSED = {"status": "passed"}
WRONG = {"status": "failed", "trouble": "wrong-answer", "detail": "the sums differ"}
BUSY = {"status": "busy", "trouble": "memory-held-by-others", "detail": "other processes hold the GPU's memory"}
TOO_SMALL = {"status": "skipped", "trouble": "too-small", "detail": "needs 8 GiB"}
NO_DEVICE = {"status": "skipped", "trouble": "no-device", "detail": "CUDA finds no GPU"}


@pytest.mark.parametrize(
    ("results", "passed", "gpus"),
    [
        ([PASSED, PASSED], True, ("H200",)),
        ([PASSED, WRONG], False, ("H200",)),
        ([PASSED, TOO_SMALL], True, ("H200",)),
        ([PASSED, BUSY], True, ("H200",)),
        ([BUSY, BUSY], True, ()),
        ([TOO_SMALL, TOO_SMALL], True, ()),
        ([NO_DEVICE, NO_DEVICE], False, ()),
        ([PASSED, NO_DEVICE], False, ("H200",)),
        ([PASSED, None], False, ("H200",)),
        ([PASSED, {"status": "fine"}], False, ("H200",)),
        ([None, None], False, ()),
    ],
)
def test_a_listed_gpu_verifies_an_image_only_if_a_test_passes_on_it(
    *, results: list[dict[str, Any] | None], passed: bool, gpus: tuple[str, ...]
) -> None:
    """A busy GPU is undetermined, as in an install; a test without a verdict, or without the listed GPU, fails."""
    facts = {f"test.{number}": result for number, result in enumerate(results) if result is not None}
    tests = [{"name": f"blas.{number}", "visible": "0"} for number in range(len(results))]
    found = verify_gpus(["H200"], tests, facts)
    assert (found.passed, found.gpus) == (passed, gpus)
    assert [entry.name for entry in found.verifications] == ["smoke.blas.0", "smoke.blas.1"]
    assert [entry.passed is True for entry in found.verifications] == [result == PASSED for result in results]


def test_the_label_names_only_the_gpus_on_which_a_test_passed() -> None:
    tests = [{"name": "blas", "visible": "0"}, {"name": "blas", "visible": "1"}]
    found = verify_gpus(["H100", "H200"], tests, {"test.0": BUSY, "test.1": PASSED})
    assert found.label == "passed: 1 of 2, on 1 GPU(s): H200"
    assert found.notes == ("no test passed on H100: other processes hold the GPU's memory",)
    assert (
        verify_gpus(["H100", "H200"], tests, {"test.0": BUSY, "test.1": BUSY}).label == "passed: 0 of 2, without a GPU"
    )
