"""The verification of an install by GPU tests."""

from __future__ import annotations

from dataclasses import replace

from gpuenv.cli.environment_change import smoke_verification
from gpuenv.model.smoke import TestStatus, Trouble
from tests.report.sample_reports import PASSED, WRONG, smoke


def test_what_several_tests_say_alike_is_said_once() -> None:
    proof = smoke_verification(smoke(PASSED, *(replace(WRONG, name=f"blas.test{n}") for n in range(5))))
    assert proof.passed is False
    assert proof.detail.startswith("5 tests failed on ")
    assert proof.detail.endswith("blas.test0, blas.test1, blas.test2 and 2 more: sum: 1 of 1 wrong")


def test_different_words_are_told_up_to_a_few() -> None:
    proof = smoke_verification(smoke(*(replace(WRONG, name=f"blas.test{n}", detail=f"wrong {n}") for n in range(5))))
    assert proof.detail.endswith(
        ": blas.test0: wrong 0; blas.test1: wrong 1; blas.test2: wrong 2; and 2 other messages"
    )


def test_a_fault_that_was_asked_for_is_said() -> None:
    assert "(no-order was planted on purpose)" in smoke_verification(smoke(WRONG)._replace(fault="no-order")).detail


def test_a_busy_gpu_fails_no_install_and_what_has_passed_is_said() -> None:
    held = replace(WRONG, status=TestStatus.BUSY, trouble=Trouble.MEMORY_HELD_BY_OTHERS, detail="needs 2.0 GiB")
    proof = smoke_verification(smoke(PASSED, held))
    assert proof.passed is None
    assert proof.detail == "1 test passed; other programs use the GPU: kernels.atomics: needs 2.0 GiB"
