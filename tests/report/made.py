"""Reports made here, and results of GPU tests to go with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuenv.doctor.diagnose import Terms, diagnose
from gpuenv.matrix.resolve import resolve
from gpuenv.report.prepared import prepared
from gpuenv.report.report import make_report
from tests.preflight.machines import MATRIX, held

if TYPE_CHECKING:
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.report.report import Report


@dataclass(frozen=True, slots=True)
class SmokeTest:
    name: str
    group: str
    gpu: str
    status: str
    duration: float
    detail: str
    measured: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Smoke:
    """Results of GPU tests in the form of gpuenv.smoke/1."""

    tests: tuple[SmokeTest, ...]


SMOKE = Smoke(
    (
        SmokeTest(
            "matmul", "blas", "GPU-1", "passed", 1.5, "", {"tflops": 48.2, "clock": [1200, 1500, 1800, 1790, 1795]}
        ),
        SmokeTest("copy", "memory", "GPU-1", "failed", 0.4, "values differ", {"bandwidth": 1.9e12}),
        SmokeTest("fft", "fft", "GPU-1", "timed-out", 30.0, "no answer", {}),
    )
)


def report(snapshot: Snapshot, *required: str) -> Report:
    resolution = resolve(snapshot, MATRIX)
    results = tuple(held(text, snapshot) for text in required)
    diagnosis = diagnose(snapshot, MATRIX, resolution, lambda: 0.0, Terms(requirements=results))
    made = make_report(diagnosis, resolution, snapshot, 0.5, Terms(requirements=results))
    return prepared(made, None)
