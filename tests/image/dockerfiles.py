"""Dockerfiles for the tests of check-image, and the findings in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuenv.image.dockerfile.judge import DockerfileOptions, FileJudgement, file_report, judge_files
from gpuenv.image.dockerfile.predict import with_machines
from gpuenv.matrix.assume import assume
from gpuenv.model.finding import Severity
from gpuenv.model.snapshot import Snapshot
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpuenv.image.inspect.image_report import ImageReport

CTK = 'RUN pip install "cupy-cuda12x[ctk]==14.2.0"'
DEVEL = "FROM nvidia/cuda:12.9.1-devel-ubuntu24.04"
RUNTIME = "FROM nvidia/cuda:12.9.1-runtime-ubuntu24.04"
SLIM = "FROM python:3.12-slim"
PARTS = (
    "FROM nvidia/cuda:12.2.2-base-ubuntu22.04\nRUN apt-get install -y cuda-nvrtc-12-2 libcublas-12-2 libcufft-12-2 "
    "libcurand-12-2 libcusolver-12-2 libcusparse-dev-12-2 cuda-cudart-dev-12-2"
)
WHEEL = "RUN pip install cupy-cuda12x==14.2.0"


def judged(folder: Path, text: str, files: Mapping[str, str] | None = None, **choice: object) -> FileJudgement:
    path = folder / "Dockerfile"
    path.write_text(text + "\n")
    for name, content in (files or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return judge_files([path], DockerfileOptions(**choice), MATRIX)  # type: ignore[arg-type]


def report_on(folder: Path, text: str, assumptions: tuple[str, ...]) -> ImageReport:
    """The report on a Dockerfile and a machine, on Linux and x86_64 by default."""
    assumed = {fact.partition("=")[0] for fact in assumptions}
    host = [fact for fact in ("os=linux", "arch=x86_64", "libc=glibc-2.36") if fact.partition("=")[0] not in assumed]
    machines = {"it": assume(Snapshot(), (*host, *assumptions), MATRIX)}
    found = judged(folder, text)
    return with_machines(
        file_report(folder / "Dockerfile", found, MATRIX), found.targets, machines, MATRIX, lambda: 0.0
    )


def located(found: FileJudgement) -> list[tuple[str, str, int | None]]:
    """Code, the last part of the file's name, and line; notes are left out."""
    return [
        (each.code, (each.file or "").rsplit("/", 1)[-1], each.line)
        for each in found.findings
        if each.severity is not Severity.NOTE
    ]


def at(*places: tuple[str, int]) -> list[tuple[str, str, int]]:
    return [(code, "Dockerfile", line) for code, line in places]
