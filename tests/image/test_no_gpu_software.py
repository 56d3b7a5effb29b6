"""An image without GPU software starts on a machine with a GPU, but the report does not promise GPU work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.image.inspect.image_facts import ImageFacts
from gpuenv.image.inspect.image_report import ImageReport, report_lines
from gpuenv.image.inspect.verdict import image_report
from gpuenv.report.report import Status
from tests.image.dockerfiles import report_on
from tests.image.test_judge import host, verdict
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from pathlib import Path

B200 = ("gpu=B200", "driver=580.95.05")
ALPINE = ("ADD alpine-minirootfs-3.20.3-x86_64.tar.gz / # buildkit", 'CMD ["/bin/sh"]')
DEBIAN = ("# debian.sh --arch 'amd64' out/ 'bookworm'", "RUN /bin/sh -c apt-get install -y curl # buildkit")


def report_of(history: tuple[str, ...] = (), **variables: str) -> ImageReport:
    image = ImageFacts("app:1", "registry", platform="linux/amd64", environment=variables, history=history)
    return image_report("app:1", {"linux/amd64": image}, (verdict(image, host(*B200)),), MATRIX)


def text_of(report: ImageReport) -> str:
    return "\n".join(line.text for line in report_lines(report))


@pytest.mark.parametrize(
    ("history", "reason"), [(ALPINE, "it is of Alpine (musl), for which CuPy has no wheels"), (DEBIAN, "")]
)
def test_an_image_without_gpu_software_starts(history: tuple[str, ...], reason: str) -> None:
    report = report_of(history)
    assert (report.status, report.machines[0].uses_gpu) == (Status.FIT, False)
    assert text_of(report).startswith("FIT: app:1 on made: starts; nothing known in it uses a GPU.")
    assert ": runs" not in text_of(report)
    assert reason in text_of(report)


@pytest.mark.parametrize("text", ["FROM alpine:3.20\nRUN apk add curl", "FROM debian:12\nRUN apt-get update"])
def test_the_image_of_a_dockerfile_without_gpu_software_starts(tmp_path: Path, text: str) -> None:
    report = report_on(tmp_path, text, B200)
    assert "On it: starts; nothing known in it uses a GPU." in text_of(report)
    assert ("musl" in text_of(report)) is ("alpine" in text)


@pytest.mark.parametrize(
    ("step", "name"),
    [("RUN pip install torch # buildkit", "torch"), ("RUN conda install -y cudatoolkit", "cudatoolkit")],
)
def test_gpu_software_with_an_unknown_cuda_is_named(step: str, name: str) -> None:
    report = report_of((step,))
    assert report.status is Status.FIT
    assert f"The CUDA of {name} in the image is unknown" in text_of(report)
    assert "uses a GPU" not in text_of(report)


def test_software_that_uses_a_gpu_runs(tmp_path: Path) -> None:
    framework = report_on(tmp_path, "FROM python:3.12-slim\nRUN pip install torch", B200)
    cuda = report_of(CUDA_VERSION="12.9.1", NVIDIA_VISIBLE_DEVICES="all")
    assert [report.machines[0].uses_gpu for report in (framework, cuda)] == [True, True]
