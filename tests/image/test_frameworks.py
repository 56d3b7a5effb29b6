"""The CUDA of another framework in a Dockerfile, on machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.report.report import Status
from tests.image.dockerfiles import report_on

if TYPE_CHECKING:
    from pathlib import Path

CU = "--index-url https://download.pytorch.org/whl/"
B200, V100, OLD = ("gpu=B200", "driver=580.95.05"), ("gpu=V100", "driver=580.95.05"), ("gpu=H100", "driver=535.104.05")
NEW, GONE, DRIVER = "gpu-too-new-for-toolkit", "gpu-removed-from-toolkit", "driver-too-old-for-cuda"


def found_on(folder: Path, text: str, machine: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """Code, cause and severity of the findings on CUDA and the GPU."""
    findings = [entry for entry in report_on(folder, text, machine).findings if entry.code in ("IMG905", "IMG919")]
    return [(entry.code, entry.cause.value, entry.severity.value) for entry in findings]


@pytest.mark.parametrize(
    ("install", "machine", "cause"),
    [
        ("torch==2.5.1", B200, NEW),
        (f"torch==2.5.1 {CU}cu124", B200, NEW),
        (f"torch {CU}cu124", B200, NEW),
        ("torch==2.7.1+cu128", B200, None),
        (f"torch==2.7.1 {CU}cu128", B200, None),
        (f"torch==2.7.1 {CU}cpu", B200, None),
        ("torch==2.15.0", V100, GONE),
        ("torch==2.10.0", V100, None),
        ("torch==2.15.0", OLD, DRIVER),
        ("torch==2.10.0", OLD, None),
        ("torch", V100, None),
    ],
)
def test_a_framework_is_checked_against_gpu_and_driver(
    tmp_path: Path, install: str, machine: tuple[str, ...], cause: str | None
) -> None:
    found = found_on(tmp_path, f"FROM python:3.12-slim\nRUN pip install {install}\n", machine)
    assert found == ([("IMG919", cause, "error")] if cause else [])


@pytest.mark.parametrize(
    ("gpu", "codes"),
    [("gpu=A100", []), ("gpu=GeForce RTX 3090", ["IMG919"])],  # forward compatibility is for the former alone
)
def test_forward_compatibility_works_for_a_framework(tmp_path: Path, gpu: str, codes: list[str]) -> None:
    text = "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\nRUN pip install torch==2.4.1\n"
    found = found_on(tmp_path, text, (gpu, "driver=470.82.01"))
    assert [code for code, _, _ in found] == codes


@pytest.mark.parametrize("install", ["torch==2.15.0", "cupy-cuda13x[ctk]==14.2.0"])
def test_an_install_in_a_condition_is_unknown(tmp_path: Path, install: str) -> None:
    sure = f"FROM python:3.12-slim\nRUN pip install '{install}'\n"
    perhaps = f"FROM python:3.12-slim\nARG X\nRUN if [ -n \"$X\" ]; then pip install '{install}'; fi\n"
    assert [severity for _, _, severity in found_on(tmp_path, sure, V100)] == ["error"]
    assert found_on(tmp_path, perhaps, V100) == []
    assert report_on(tmp_path, perhaps, V100).status is Status.UNKNOWN


def test_a_cupy_in_a_condition_does_not_hide_findings(tmp_path: Path) -> None:
    text = "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\nARG X\n"
    perhaps = text + 'RUN if [ -n "$X" ]; then pip install cupy-cuda12x==14.2.0; fi\n'
    assert found_on(tmp_path, perhaps, B200) == found_on(tmp_path, text, B200) == [("IMG905", NEW, "error")]


def test_the_cuda_of_wheels_for_arm_is_unknown(tmp_path: Path) -> None:
    report = report_on(tmp_path, "FROM python:3.12-slim\nRUN pip install torch==2.5.1\n", (*B200, "arch=aarch64"))
    assert report.findings == ()
    assert any("torch" in reason and "arm64" in reason for reason in report.machines[0].unknown)
