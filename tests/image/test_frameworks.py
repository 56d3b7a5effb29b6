"""The CUDA of another framework in a Dockerfile, held against machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.data import data_path
from gpuenv.image.check.judge_file import Choice, file_report, judge_dockerfile
from gpuenv.image.check.supposed import with_machines
from gpuenv.matrix.assume import assume
from gpuenv.matrix.load import load
from gpuenv.model.snapshot import Snapshot

if TYPE_CHECKING:
    from pathlib import Path

MATRIX = load(data_path("matrix.yaml"))
CU = "--index-url https://download.pytorch.org/whl/"
B200, V100, OLD = ("gpu=B200", "driver=580.95.05"), ("gpu=V100", "driver=580.95.05"), ("gpu=H100", "driver=535.104.05")
NEW, GONE, DRIVER = "gpu-too-new-for-toolkit", "gpu-removed-from-toolkit", "driver-too-old-for-cuda"


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
    file = tmp_path / "Dockerfile"
    file.write_text(f"FROM python:3.12-slim\nRUN pip install {install}\n")
    judged = judge_dockerfile(file, Choice(), MATRIX)
    host = ("os=linux", "arch=x86_64", "libc=glibc-2.36")
    machines = {"m": assume(Snapshot(), [*host, *machine], MATRIX)}
    report = with_machines(file_report(file, "dockerfile", judged, MATRIX), judged.built, machines, MATRIX, lambda: 0.0)
    told = [entry.cause.value for entry in report.findings if entry.code == "IMG919"]
    assert told == ([cause] if cause else [])
