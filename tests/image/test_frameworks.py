"""The CUDA of another framework in a Dockerfile, held against machines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from gpuenv.image.dockerfile.judge import DockerfileOptions, file_report, judge_files
from gpuenv.image.dockerfile.predict import with_machines
from gpuenv.matrix.assume import assume
from gpuenv.model.snapshot import Snapshot
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from pathlib import Path

    from gpuenv.image.inspect.image_report import ImageReport

ARCH = re.compile("arch=")
CU = "--index-url https://download.pytorch.org/whl/"
B200, V100, OLD = ("gpu=B200", "driver=580.95.05"), ("gpu=V100", "driver=580.95.05"), ("gpu=H100", "driver=535.104.05")
NEW, GONE, DRIVER = "gpu-too-new-for-toolkit", "gpu-removed-from-toolkit", "driver-too-old-for-cuda"


def told(folder: Path, text: str, machine: tuple[str, ...]) -> tuple[ImageReport, list[tuple[str, str, str]]]:
    """The report on a machine, and of what it says of CUDA and its GPU the code, the cause and the severity."""
    file = folder / "Dockerfile"
    file.write_text(text)
    judged = judge_files([file], DockerfileOptions(), MATRIX)
    host = ("os=linux", "libc=glibc-2.36", *(() if any(map(ARCH.match, machine)) else ("arch=x86_64",)))
    machines = {"m": assume(Snapshot(), [*host, *machine], MATRIX)}
    report = with_machines(file_report(file, judged, MATRIX), judged.targets, machines, MATRIX, lambda: 0.0)
    findings = [entry for entry in report.findings if entry.code in ("IMG905", "IMG919")]
    return report, [(entry.code, entry.cause.value, entry.severity.value) for entry in findings]


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
def test_a_framework_is_held_against_the_gpu(
    tmp_path: Path, install: str, machine: tuple[str, ...], cause: str | None
) -> None:
    _, found = told(tmp_path, f"FROM python:3.12-slim\nRUN pip install {install}\n", machine)
    assert found == ([("IMG919", cause, "error")] if cause else [])


@pytest.mark.parametrize(
    ("gpu", "codes"),
    [("gpu=A100", []), ("gpu=GeForce RTX 3090", ["IMG919"])],  # forward compatibility is for the former alone
)
def test_forward_compatibility_carries_a_framework_too(tmp_path: Path, gpu: str, codes: list[str]) -> None:
    text = "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\nRUN pip install torch==2.4.1\n"
    _, found = told(tmp_path, text, (gpu, "driver=470.82.01"))
    assert [code for code, _, _ in found] == codes


@pytest.mark.parametrize("install", ["torch==2.15.0", "cupy-cuda13x[ctk]==14.2.0"])
def test_what_is_installed_in_a_condition_is_unknown(tmp_path: Path, install: str) -> None:
    sure = f"FROM python:3.12-slim\nRUN pip install '{install}'\n"
    perhaps = f"FROM python:3.12-slim\nARG X\nRUN if [ -n \"$X\" ]; then pip install '{install}'; fi\n"
    assert [severity for _, _, severity in told(tmp_path, sure, V100)[1]] == ["error"]
    report, found = told(tmp_path, perhaps, V100)
    assert (found, report.status.value) == ([], "unknown")


def test_a_cupy_in_a_condition_hides_no_fault_of_the_image(tmp_path: Path) -> None:
    text = "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\nARG X\n"
    perhaps = text + 'RUN if [ -n "$X" ]; then pip install cupy-cuda12x==14.2.0; fi\n'
    assert told(tmp_path, perhaps, B200)[1] == told(tmp_path, text, B200)[1]
    assert ("IMG905", NEW, "error") in told(tmp_path, text, B200)[1]


def test_which_cuda_wheels_for_arm_are_of_is_not_known(tmp_path: Path) -> None:
    report, found = told(tmp_path, "FROM python:3.12-slim\nRUN pip install torch==2.5.1\n", (*B200, "arch=aarch64"))
    assert found == []
    assert any("torch" in reason and "arm64" in reason for reason in report.machines[0].unknown)
