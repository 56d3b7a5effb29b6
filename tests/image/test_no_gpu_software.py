"""An image without GPU software starts on a machine with a GPU; that GPU work runs in it is not promised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.program import answer, gpuenv
from tests.image.layouts import Made, layout

if TYPE_CHECKING:
    from pathlib import Path

B200 = [
    *("--no-probe", "--assume", "os=linux", "--assume", "arch=x86_64"),
    *("--assume", "gpu=B200", "--assume", "driver=580.95.05"),
]
ALPINE = ("ADD alpine-minirootfs-3.20.3-x86_64.tar.gz / # buildkit", 'CMD ["/bin/sh"]')
DEBIAN = ("# debian.sh --arch 'amd64' out/ 'bookworm'", "RUN /bin/sh -c apt-get install -y curl # buildkit")


def dockerfile(folder: Path, *steps: str) -> Path:
    path = folder / "Dockerfile"
    path.write_text("\n".join(steps) + "\n")
    return path


@pytest.mark.parametrize(
    ("history", "reason"), [(ALPINE, "it is of Alpine (musl), for which CuPy has no wheels"), (DEBIAN, "")]
)
def test_an_image_without_gpu_software_starts_and_no_gpu_work_is_promised(
    tmp_path: Path, history: tuple[str, ...], reason: str
) -> None:
    folder = layout(tmp_path / "image", Made(history=history))

    done = gpuenv("check-image", folder, *B200)
    code, report = answer("check-image", folder, *B200)

    assert done.returncode == code == 0
    assert f"FIT: {folder} on this machine: starts; nothing known in it uses a GPU." in done.stdout
    assert ": runs" not in done.stdout
    assert reason in done.stdout
    assert report["machines"][0]["uses_gpu"] is False
    assert report["status"] == "fit"


@pytest.mark.parametrize("steps", [("FROM alpine:3.20", "RUN apk add curl"), ("FROM debian:12", "RUN apt-get update")])
def test_a_dockerfile_without_gpu_software_promises_no_gpu_work(tmp_path: Path, steps: tuple[str, ...]) -> None:
    done = gpuenv("check-image", "--dockerfile", dockerfile(tmp_path, *steps), *B200)

    assert done.returncode == 0
    assert "On this machine: starts; nothing known in it uses a GPU." in done.stdout
    assert ("musl" in done.stdout) is (steps[0] == "FROM alpine:3.20")


@pytest.mark.parametrize("history", [("RUN pip install torch # buildkit",), ("RUN conda install -y cudatoolkit",)])
def test_gpu_software_whose_cuda_nothing_tells_is_named(tmp_path: Path, history: tuple[str, ...]) -> None:
    done = gpuenv("check-image", layout(tmp_path / "image", Made(history=history)), *B200)

    assert done.returncode == 0
    assert f"Nothing tells which CUDA {history[0].split()[-1 if 'conda' in history[0] else 3]}" in done.stdout
    assert "uses a GPU" not in done.stdout


def test_a_framework_without_a_version_in_a_dockerfile_uses_a_gpu(tmp_path: Path) -> None:
    file = dockerfile(tmp_path, "FROM python:3.12-slim", "RUN pip install torch")
    code, report = answer("check-image", "--dockerfile", file, *B200)
    assert (code, report["machines"][0]["uses_gpu"]) == (0, True)


def test_an_image_of_cuda_runs(tmp_path: Path) -> None:
    folder = layout(tmp_path / "image", Made({"CUDA_VERSION": "12.9.1", "NVIDIA_VISIBLE_DEVICES": "all"}))
    code, report = answer("check-image", folder, *B200)
    assert (code, report["machines"][0]["uses_gpu"]) == (0, True)
