"""The printed result, and a written result read back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.model.causes import Cause
from gpuenv.model.codec import decode, encode
from gpuenv.model.job import Job
from gpuenv.model.smoke import (
    SmokeResult,
    TestResult,
    TestStatus,
    Trouble,
)
from gpuenv.model.strings import format_share
from gpuenv.report.smoke_text import section_lines, smoke_lines
from tests.smoke.devices import A, B, result, test


def text(outcome: SmokeResult, *, verbose: bool = False) -> str:
    return "\n".join(line.text for line in smoke_lines(outcome, verbose=verbose))


def section(outcome: SmokeResult) -> str:
    return "\n".join(line.text for line in section_lines(outcome))


def test_a_passed_run_lists_its_measurements() -> None:
    printed = text(result(test("transfer.rates", A, h2d=24.1e9), test("kernels.x", A, time=3.2e-6)))
    assert printed.startswith("PASSED: ")
    assert "2 tests passed" in printed
    assert "24.1 GB/s" in printed
    assert "3.2 us" in printed
    assert "exit code 0" in printed


def test_the_host_and_the_job_follow_the_verdict() -> None:
    located = result(test("kernels.x", A))._replace(host_name="gpunode07", jobs=(Job("slurm", "4711", "train"),))
    assert text(located).splitlines()[1] == "Host: gpunode07; Slurm job 4711 (train)"
    assert "Host" not in section(located), "a report names it above"


def test_a_run_that_tested_no_more_than_one_of_two_gpus_says_so() -> None:
    skipped = replace(test("transfer.rates", B), status=TestStatus.SKIPPED, trouble=Trouble.TOO_SMALL, detail="small")
    run = result(test("transfer.rates", A), skipped)
    gpus = tuple(
        replace(gpu, index=number, pci=f"00000000:0{number}:00.0", status=status)
        for number, (gpu, status) in enumerate(zip(run.gpus, (TestStatus.PASSED, TestStatus.SKIPPED), strict=True))
    )
    printed = text(run._replace(gpus=gpus, exit_code=5))
    assert printed.startswith("UNFINISHED: no test ran on 1 of 2 GPUs; those that ran computed correct results.\n")
    assert f"{B}, GPU 1, 00000000:01:00.0: skipped\n" in printed
    assert f"{A}, GPU 0, 00000000:00:00.0\n" in printed


def test_an_interrupted_run_is_unfinished() -> None:
    passed = test("transfer.rates", A, h2d=24.1e9)
    unfinished = replace(test("kernels.x", A), status=TestStatus.SKIPPED, trouble=Trouble.INTERRUPTED, detail="not now")
    for printed in (text(result(passed, unfinished)), section(result(passed, unfinished))):
        assert "UNFINISHED: not every test ran" in printed
        assert "not now" in printed
    assert text(result(unfinished)).startswith("SKIPPED: no test ran")


@pytest.mark.parametrize(("ratio", "expected"), [(1.04, "104%"), (0.956, "96%"), (0.01, "1%"), (0.0031, "0.31%")])
def test_a_small_share_is_not_rounded_to_zero(ratio: float, expected: str) -> None:
    assert format_share(ratio) == expected


def test_repetitions_are_numbered_and_skipped_tests_grouped() -> None:
    rates, skipped = test("transfer.rates", A, h2d=24.1e9), replace(test("multi.each", A), status=TestStatus.SKIPPED)
    printed = text(result(rates, skipped, replace(rates, repeat=1), replace(skipped, repeat=1)))
    assert [line.split()[:2] for line in printed.splitlines() if "GB/s" in line] == [
        ["transfer.h2d", "24.1"],
        ["transfer.h2d", "#2"],
    ]
    assert "skipped: multi.each\n" in printed


def test_the_explanation_of_a_cause_is_suggested_once() -> None:
    lost = replace(
        test("kernels.x", A), status=TestStatus.CRASHED, trouble=Trouble.CONTEXT_LOST, cause=Cause.ILLEGAL_MEMORY_ACCESS
    )
    skipped = replace(lost, name="kernels.z", status=TestStatus.SKIPPED, trouble=Trouble.NOT_APPLICABLE)
    lines = text(result(lost, replace(lost, name="kernels.y"), skipped, exit_code=5)).splitlines()
    assert [number for number, line in enumerate(lines) if "gpuenv explain" in line] == [
        next(number for number, line in enumerate(lines) if "kernels.y" in line) + 1
    ]


def test_a_failed_test_is_listed_with_its_reason_and_cause() -> None:
    lost = TestResult(
        "kernels.x", "kernels", A, TestStatus.CRASHED, 2.0, "the CUDA context is lost", trouble=Trouble.CONTEXT_LOST,
        cause=Cause.ILLEGAL_MEMORY_ACCESS,
    )  # fmt: skip
    printed = text(result(test("a.b", A), lost, exit_code=5, fault="illegal-access"))
    assert printed.startswith("FAILED: ")
    assert "crashed   kernels.x, 2.0 s: the CUDA context is lost" in printed
    assert "gpuenv explain illegal-memory-access" in printed
    assert "planted on purpose: illegal-access" in printed


def test_verbose_output_lists_every_test_and_a_missed_budget() -> None:
    outcome = result(test("a.b", A), duration=99.0)
    assert "passed    a.b" in text(outcome, verbose=True)
    assert "over the budget of 60 s" in text(outcome)


def test_lines_are_ascii_and_at_most_100_characters() -> None:
    for line in text(result(test("a.b", A, rate=1.0)), verbose=True).splitlines():
        line.encode("ascii")
        assert len(line) <= 100


def test_a_written_result_is_read_back_unchanged() -> None:
    original = result(test("a.b", A, rate=1.5), versions={"cupy": "14.2.0"})
    assert decode(SmokeResult, encode(original)) == original


def test_a_report_gives_the_common_reason_of_skipped_tests_once() -> None:
    reason = "GPU201 no-nvidia-gpu: This machine has no NVIDIA GPU"
    skipped = [
        replace(test(name, A), status=TestStatus.SKIPPED, detail=reason) for name in ("a.b", "c.d", "e.f", "g.h")
    ]
    for render in (section_lines, smoke_lines):
        printed = "\n".join(line.text for line in render(result(*skipped, status=TestStatus.SKIPPED)))
        assert printed.count(reason) == 1
        assert "skipped: 4 tests" in printed
    passed = "\n".join(line.text for line in section_lines(result(test("a.b", A), skipped[0])))
    assert reason not in passed, "a passed run does not need the reason"
