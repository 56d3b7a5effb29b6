"""Images of public reports on the machines of their users: the cause is that of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.report.report import Status
from tests.image.dockerfiles import report_on

if TYPE_CHECKING:
    from pathlib import Path

CASES = {
    "NVIDIA/nvidia-docker#68": (
        "FROM nvidia/cuda:7.5-devel-ubuntu14.04", ("driver-cuda=6.5", "gpu=GTX 980"), "driver-too-old-for-cuda",
    ),
    "motokimura/spacenet_building_detection#4": (
        "FROM nvidia/cuda:8.0-cudnn6-devel-ubuntu16.04", ("driver=435.21", "gpu=RTX 2080"), "gpu-too-new-for-toolkit",
    ),
    "AIR-DISCOVER/ICRA2024-Sim2Real-AXS#5": (
        "FROM nvidia/cuda:12.1.1-cudnn8-devel-ubuntu20.04", ("driver=525", "gpu=RTX 3090"),
        "forward-compat-unsupported",
    ),
    "cupy/cupy#9318": (
        "FROM nvidia/cuda:12.2.2-devel-ubuntu22.04\nRUN pip install cupy-cuda13x==13.6.0",
        ("driver=580", "gpu=RTX 4090"), "wrong-cupy-wheel-for-cuda-major",
    ),
    "a GPU of its time": ("FROM nvcr.io/nvidia/cuda:8.0-devel-ubuntu16.04", ("driver=435.21", "gpu=GTX 1080"), None),
    "Volta on CUDA 9": ("FROM nvcr.io/nvidia/cuda:9.0-devel-ubuntu16.04", ("driver=435.21", "gpu=V100"), None),
}  # fmt: skip


@pytest.mark.parametrize("source", CASES)
def test_the_cause_is_that_of_the_report(source: str, tmp_path: Path) -> None:
    text, assumptions, cause = CASES[source]
    report = report_on(tmp_path, text, assumptions)
    assert {finding.cause.value for machine in report.machines for finding in machine.findings} == {cause} - {None}
    assert report.status is (Status.UNFIT if cause else Status.UNKNOWN)
