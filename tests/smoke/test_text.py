"""The printed result, and the result as it is written and read again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.model.causes import Cause
from gpuenv.model.codec import decode, encode
from gpuenv.model.smoke import (
    SmokeResult,
    TestResult,
    TestStatus,
    Trouble,
)
from gpuenv.model.strings import format_share
from gpuenv.report.smoke_text import section_lines, smoke_lines
from tests.smoke.devices import A, result, test

# The printed result.


def text(shown: SmokeResult, *, verbose: bool = False) -> str:
    return "\n".join(line.text for line in smoke_lines(shown, verbose=verbose))


def section(shown: SmokeResult) -> str:
    return "\n".join(line.text for line in section_lines(shown))


def test_a_passed_run_is_short_and_has_its_numbers() -> None:
    printed = text(result(test("transfer.rates", A, h2d=24.1e9), test("kernels.x", A, time=3.2e-6)))
    assert printed.startswith("PASSED: ")
    assert "2 tests passed" in printed
    assert "24.1 GB/s" in printed
    assert "3.2 us" in printed
    assert "exit code 0" in printed


def test_a_part_is_not_called_the_whole() -> None:
    tried = test("transfer.rates", A, h2d=24.1e9)
    wanting = replace(test("kernels.x", A), status=TestStatus.SKIPPED, trouble=Trouble.INTERRUPTED, detail="not now")
    for printed in (text(result(tried, wanting)), section(result(tried, wanting))):
        assert "UNFINISHED: not every test ran" in printed
        assert "not now" in printed
    assert text(result(wanting)).startswith("SKIPPED: no test ran")


@pytest.mark.parametrize(("ratio", "told"), [(1.04, "104%"), (0.956, "96%"), (0.01, "1%"), (0.0031, "0.31%")])
def test_little_is_not_called_nothing(ratio: float, told: str) -> None:
    assert format_share(ratio) == told


def test_repetitions_are_told_apart_and_skipped_for_one_reason() -> None:
    rates, left = test("transfer.rates", A, h2d=24.1e9), replace(test("multi.each", A), status=TestStatus.SKIPPED)
    printed = text(result(rates, left, replace(rates, repeat=1), replace(left, repeat=1)))
    assert [line.split()[:2] for line in printed.splitlines() if "GB/s" in line] == [
        ["transfer.h2d", "24.1"],
        ["transfer.h2d", "#2"],
    ]
    assert "skipped: multi.each\n" in printed


def test_a_cause_is_pointed_to_once_and_not_after_every_test() -> None:
    lost = replace(
        test("kernels.x", A), status=TestStatus.CRASHED, trouble=Trouble.CONTEXT_LOST, cause=Cause.ILLEGAL_MEMORY_ACCESS
    )
    left = replace(lost, name="kernels.z", status=TestStatus.SKIPPED, trouble=Trouble.NOT_APPLICABLE)
    lines = text(result(lost, replace(lost, name="kernels.y"), left, exit_code=5)).splitlines()
    assert [number for number, line in enumerate(lines) if "gpuenv explain" in line] == [
        next(number for number, line in enumerate(lines) if "kernels.y" in line) + 1
    ]


def test_what_did_not_pass_is_named_with_its_reason_and_cause() -> None:
    lost = TestResult(
        "kernels.x", "kernels", A, TestStatus.CRASHED, 2.0, "the CUDA context is lost", trouble=Trouble.CONTEXT_LOST,
        cause=Cause.ILLEGAL_MEMORY_ACCESS,
    )  # fmt: skip
    printed = text(result(test("a.b", A), lost, exit_code=5, fault="illegal-access"))
    assert printed.startswith("FAILED: ")
    assert "crashed   kernels.x, 2.0 s: the CUDA context is lost" in printed
    assert "gpuenv explain illegal-memory-access" in printed
    assert "planted on purpose: illegal-access" in printed


def test_every_test_is_listed_on_demand_and_a_budget_that_was_missed_is_told() -> None:
    shown = result(test("a.b", A), duration=99.0)
    assert "passed    a.b" in text(shown, verbose=True)
    assert "over the budget of 60 s" in text(shown)


def test_lines_are_short_and_in_ascii() -> None:
    for line in text(result(test("a.b", A, rate=1.0)), verbose=True).splitlines():
        line.encode("ascii")
        assert len(line) <= 100


def test_a_result_is_read_again_as_it_was_written() -> None:
    whole = result(test("a.b", A, rate=1.5), versions={"cupy": "14.2.0"})
    assert decode(SmokeResult, encode(whole)) == whole


def test_a_report_tells_once_why_nothing_was_proven() -> None:
    why = "GPU201 no-nvidia-gpu: This machine has no NVIDIA GPU"
    left = [replace(test(name, A), status=TestStatus.SKIPPED, detail=why) for name in ("a.b", "c.d", "e.f", "g.h")]
    for shown in (section_lines, smoke_lines):
        printed = "\n".join(line.text for line in shown(result(*left, status=TestStatus.SKIPPED)))
        assert printed.count(why) == 1
        assert "skipped: 4 tests" in printed
    passed = "\n".join(line.text for line in section_lines(result(test("a.b", A), left[0])))
    assert why not in passed, "what was proven needs no such word"
