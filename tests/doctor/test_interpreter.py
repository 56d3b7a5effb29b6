"""Where the interpreter's platform has no wheel at all, neither the driver nor a GPU is to blame."""

from __future__ import annotations

import time

import pytest

from gpuenv.doctor.diagnose import Diagnosis, diagnose
from gpuenv.matrix.assume import assume
from gpuenv.matrix.resolve import resolve
from gpuenv.model.causes import Cause
from gpuenv.model.finding import CheckStatus
from gpuenv.model.snapshot import Snapshot
from tests.support.matrix import MATRIX

PLACE = ("os=linux", "arch=x86_64", "python=3.12", "driver=580.65.06", "cupy=cupy-cuda12x==14.2.0")


def diagnosed(*facts: str) -> Diagnosis:
    snapshot = assume(Snapshot(), (*PLACE, *facts), MATRIX)
    return diagnose(snapshot, MATRIX, resolve(snapshot, MATRIX), time.monotonic)


@pytest.mark.parametrize("gpu", ["V100", "H200", "RTX 5090", "GTX 1080", "Tesla K80"])
def test_a_cupy_on_musl_is_of_the_wrong_platform_whatever_the_gpu(gpu: str) -> None:
    diagnosis = diagnosed("libc=musl-1.2", f"gpu={gpu}")
    (run,) = [run for run in diagnosis.checks if run.code == "WHL508"]
    assert run.status is CheckStatus.SKIPPED
    assert Cause.PLATFORM_WHEEL_MISSING in {finding.cause for finding in diagnosis.findings}
    assert Cause.GPU_TOO_NEW_FOR_TOOLKIT not in {finding.cause for finding in diagnosis.findings}


def test_with_a_c_library_that_has_wheels_the_gpu_is_judged() -> None:
    diagnosis = diagnosed("libc=glibc-2.36", "gpu=Tesla K80")
    assert "WHL508" in {finding.code for finding in diagnosis.findings}
