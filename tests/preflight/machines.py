"""Machines made of assumptions, on which requirements are evaluated."""

from __future__ import annotations

from gpuenv.matrix.assume import assume
from gpuenv.model.finding import RequirementResult
from gpuenv.model.snapshot import Snapshot
from gpuenv.preflight.evaluate import evaluate
from gpuenv.preflight.requirements import parse_requirement
from tests.support.matrix import MATRIX

H100_PAIR = ("os=linux", "arch=x86_64", "libc=glibc-2.36", "python=3.12.4", "driver=580.95.05", "gpu=H100", "gpu=H100")
FIT = (*H100_PAIR, "gpu-memory=80GiB", "cupy=cupy-cuda13x==14.2.0", "numpy=2.1.0", "container=no")


def machine(*assumptions: str) -> Snapshot:
    return assume(Snapshot(), assumptions, MATRIX)


def evaluate_text(text: str, snapshot: Snapshot) -> RequirementResult:
    (result,) = evaluate([parse_requirement(text)], snapshot)
    return result
