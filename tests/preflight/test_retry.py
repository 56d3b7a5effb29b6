"""Causes that are a reason to retry a job on another host."""

from __future__ import annotations

import pytest

from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Finding, Severity
from gpuenv.preflight.evaluate import reason_to_retry
from tests.cli.program import LIMIT, MINIMAL, PROGRAM, run_gpuenv
from tests.preflight.machines import FIT, evaluate_text, machine

JOB_CAUSES = {
    Cause.DRIVER_TOO_OLD_FOR_CUDA,  # another wheel line fits this very driver
    Cause.CONTAINER_WITHOUT_GPU,  # the job's own way of starting the container
    Cause.CONTAINER_DRIVER_CAPABILITIES,
    Cause.VISIBLE_DEVICES_HIDE_GPU,
    Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR,
    Cause.CUPY_NOT_INSTALLED,
    Cause.GPU_REMOVED_FROM_TOOLKIT,
    Cause.TARGET_ENVIRONMENT_BROKEN,
    Cause.FORWARD_COMPAT_UNSUPPORTED,
    Cause.OUT_OF_MEMORY,
}


def finding(cause: Cause, severity: Severity = Severity.ERROR) -> Finding:
    return Finding("XXX100", cause, severity, True, None, "Something", (), (), "")


@pytest.mark.parametrize("cause", [cause for cause in Cause if cause.other_host], ids=str)
def test_a_fault_of_the_host_is_a_reason_to_retry_elsewhere(cause: Cause) -> None:
    assert reason_to_retry([finding(cause)], []) == f"{cause}: {cause.other_host}"
    assert reason_to_retry([finding(cause, Severity.WARNING)], []) is None


@pytest.mark.parametrize("cause", sorted(JOB_CAUSES, key=str), ids=str)
def test_a_fault_of_the_job_is_not_a_reason_to_retry_elsewhere(cause: Cause) -> None:
    assert cause.other_host is None
    assert reason_to_retry([finding(cause)], []) is None


def test_transient_causes_concern_the_host() -> None:
    assert all(cause.other_host for cause in Cause if cause.transient)


@pytest.mark.parametrize(
    ("text", "elsewhere"),
    [("gpu==8", True), ("memory>=100GiB", True), ("driver>=600", True), ("cupy<14", False), ("python<3.12", False)],
)
def test_a_requirement_says_whether_another_host_could_meet_it(text: str, *, elsewhere: bool) -> None:
    result = evaluate_text(text, machine(*FIT))
    assert (reason_to_retry([finding(Cause.REQUIREMENT_NOT_MET)], [result]) is not None) is elsewhere


@pytest.mark.parametrize(
    ("cause", "elsewhere"), [(Cause.VISIBLE_DEVICES_HIDE_GPU, False), (Cause.CONTAINER_CGROUP_LOST_GPU, True)]
)
def test_a_violation_caused_by_the_job_is_not_a_reason_to_retry_elsewhere(cause: Cause, *, elsewhere: bool) -> None:
    result = evaluate_text("gpu==8", machine(*FIT))
    evidence = (Evidence("required", "gpu==8", "--require"),)
    consequence = Finding("REQ801", Cause.REQUIREMENT_NOT_MET, Severity.ERROR, False, "XXX100", "", evidence, (), "")
    assert (reason_to_retry([finding(cause), consequence], [result]) is not None) is elsewhere


def test_a_hidden_gpu_exits_with_1_even_with_a_requirement() -> None:
    machine = ("simulate", "hidden-by-visible-devices", "--", *PROGRAM, "preflight", "--no-config", "--retry-elsewhere")
    result = run_gpuenv((*machine, "--require", "gpu>=1"), MINIMAL, LIMIT)
    assert result.returncode == 1, result.stderr
    assert "NOT MET gpu>=1" in result.stdout
