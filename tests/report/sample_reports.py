"""Sample reports, and sample results of GPU tests for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuenv.doctor.diagnose import DiagnosisOptions, diagnose
from gpuenv.model.smoke import (
    Compared,
    Quantity,
    SmokeResult,
    TestedGpu,
    TestResult,
    TestStatus,
    Trouble,
    overall,
)
from gpuenv.model.smoke_level import SmokeLevel
from gpuenv.report.redact import sanitize_report
from gpuenv.report.report import make_report
from tests.cli.snapshots import UUID
from tests.preflight.machines import evaluate_text
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.report.report import Report

PASSED = TestResult(
    "blas.rates",
    "blas",
    UUID,
    TestStatus.PASSED,
    1.5,
    title="rates of the matrix product",
    measured={"matmul_f16": Quantity(241.2e12, "FLOP/s"), "matmul_f64": Quantity(1.1e12, "FLOP/s")},
)
AGAIN = TestResult(
    "transfer.rates",
    "transfer",
    UUID,
    TestStatus.PASSED,
    0.7,
    measured={"device_copy": Quantity(1.71e12, "B/s"), "h2d_pinned": Quantity(25.1e9, "B/s")},
)
WRONG = TestResult(
    "kernels.atomics", "kernels", UUID, TestStatus.FAILED, 0.4, "sum: 1 of 1 wrong", trouble=Trouble.WRONG_ANSWER
)
HUNG = TestResult(
    "fft.complex", "fft", UUID, TestStatus.TIMED_OUT, 30.0, "no answer within 30 s", trouble=Trouble.DEADLINE
)
LEFT = TestResult(
    "multi.peer",
    "multi",
    None,
    TestStatus.SKIPPED,
    0.0,
    "needs 2 GPUs; visible: 1",
    trouble=Trouble.NOT_APPLICABLE,
)
SLOW = Compared("blas.matmul_f64", UUID, "FLOP/s", 1.1e12, 19.5e12, 1.1 / 19.5, worse=True, against="data-sheet")
GOOD = Compared("blas.matmul_f16", UUID, "FLOP/s", 241.2e12, 312e12, 241.2 / 312, worse=False, against="data-sheet")


def smoke(*tests: TestResult, compared: tuple[Compared, ...] = ()) -> SmokeResult:
    """A run with these results."""
    status = overall(tests)
    return SmokeResult(
        status=status,
        exit_code=0 if status is TestStatus.PASSED else 5,
        level=SmokeLevel.NORMAL,
        seed=7,
        gpus=(TestedGpu(UUID, "NVIDIA A100-SXM4-80GB", "8.0", 81920 << 20),),
        tests=tests,
        duration=12.5,
        budget=60.0,
        versions={"cupy": "14.2.0"},
        compared=compared,
    )


FAULTY = smoke(PASSED, AGAIN, WRONG, HUNG, LEFT, compared=(GOOD, SLOW))


def report(snapshot: Snapshot, *required: str, tests: SmokeResult | None = None) -> Report:
    terms = DiagnosisOptions(requirements=tuple(evaluate_text(text, snapshot) for text in required))
    diagnosis = diagnose(snapshot, MATRIX, lambda: 0.0, terms, tests)
    return sanitize_report(make_report(diagnosis, snapshot, 0.5, terms, tests), None)
