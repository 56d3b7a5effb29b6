"""The facts in the name of a base image, and verdicts on Dockerfiles with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuenv.image.dockerfile.base_images import base_of
from gpuenv.image.dockerfile.judge import DockerfileOptions, file_report, judge_files
from gpuenv.image.dockerfile.predict import with_machines
from gpuenv.matrix.assume import assume
from gpuenv.matrix.tables import Flavour
from gpuenv.model.snapshot import Snapshot
from gpuenv.report.report import Status
from tests.image.dockerfiles import report_on
from tests.support.matrix import MATRIX

A100 = ("driver=535.104.05", "gpu=A100")
RTX_5090 = ("driver=570.86.15", "gpu=NVIDIA GeForce RTX 5090")
WHEEL = "RUN pip install cupy-cuda12x==14.2.0"


@pytest.mark.parametrize(
    ("name", "cuda"),
    [
        ("rapidsai/base:25.02-cuda12.5-py3.12", "12.5"),
        ("pytorch/pytorch:2.1.2-cuda11.8-cudnn8-devel", "11.8"),
        ("vastai/base-image:cuda-12.4.1-auto", "12.4"),
        ("own/base:2.0.1-gpu-py310-cu118-ubuntu20.04", "11.8"),
        ("own/base:focal-20210416-cuda-11-3", "11.3"),
        ("own/base:16.04-cuda.9.0-cudnn.7", "9.0"),
        ("gcr.io/deeplearning-platform-release/base-cu110", "11.0"),
        ("own/cuda92:1", "9.2"),
        ("gpuci/miniconda-cuda:11.1-runtime-ubuntu20.04", "11.1"),
        ("nvidia/cudagl:11.3.0-devel-ubuntu20.04", "11.3"),
        ("own/cuda-tools:2.1", None),
        ("own/base:cuda12-1.19.2", None),
        ("own/base:cuda12", None),
        ("own/base:cu999", None),
        ("own/accuda118:1", None),
        ("nvcr.io/nvidia/pytorch:23.10-py3", None),
        ("nvcr.io/nvidia/merlin/merlin-pytorch:23.06", "12.1"),
        ("nvcr.io/nvidia/cuda-dl-base:25.01-cuda12.8-devel-ubuntu24.04", "12.8"),
        ("mcr.microsoft.com/azureml/openmpi4.1.0-cuda11.8-cudnn8-ubuntu22.04:latest", "11.8"),
        ("cschranz/gpu-jupyter:v1.7_cuda-12.2_ubuntu-22.04", "12.2"),
        ("tensorflow/tensorflow:2.13.0-gpu-jupyter", "11.8"),
        ("tensorflow/tensorflow:2.4.1-gpu", "11.0"),
        ("tensorflow/tensorflow:2.15.0-gpu", None),
        ("rapidsai/base:26.02-cuda13-py3.13", "13.1"),
        ("rapidsai/base:26.08-cuda13-py3.13", None),
        ("rayproject/ray:2.9.3-py310-cu118", "11.8"),
        ("rayproject/ray:2.9.3-py310-gpu", None),
        ("quay.io/jupyter/pytorch-notebook:cuda12-python-3.13", None),
    ],
)
def test_the_name_of_a_base_may_show_its_cuda(name: str, cuda: str | None) -> None:
    base = base_of(name, MATRIX)
    assert (str(base.cuda) if base.cuda else None) == cuda
    assert base.unknown is (cuda is None)


@pytest.mark.parametrize(
    "name", ["tensorflow/tensorflow:2.15.0", "quay.io/jupyter/base-notebook:python-3.12", "rayproject/ray:2.9.3-py310"]
)
def test_the_name_of_a_base_may_show_that_it_has_no_cuda(name: str) -> None:
    assert base_of(name, MATRIX).plain


# CuPy 12.2.0 has no wheel for Python 3.12, but for 3.10 and 3.11.
@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("FROM nvcr.io/nvidia/pytorch:25.04-py3", ["DKF914"]),
        ("FROM nvcr.io/nvidia/pytorch:25.04-py3\nRUN conda install python=3.11", []),
        ("FROM nvcr.io/nvidia/pytorch:24.05-py3", []),
        ("FROM nvcr.io/nvidia/pytorch:24.04-py3", []),
        ("FROM rapidsai/base:25.02-cuda12.5-py3.12", ["DKF914"]),
        ("FROM rapidsai/base:25.02-cuda12.5-py3.11", []),
        ("FROM rayproject/ray:2.9.3-py312-cu121", ["DKF914"]),
        ("FROM python:3.12-slim\nRUN uv --version", ["DKF914"]),
        ("FROM nvidia/cuda:12.4.1-devel-ubuntu24.04", ["DKF914"]),
    ],
)
def test_cupy_needs_a_wheel_for_the_python_of_the_base(tmp_path: Path, text: str, codes: list[str]) -> None:
    found = report_on(tmp_path, f"{text}\nRUN pip install 'cupy-cuda12x[ctk]==12.2.0'", A100)
    assert [entry.code for entry in found.findings if entry.file and entry.code == "DKF914"] == codes


def test_every_pattern_for_names_is_needed() -> None:
    examples = Path(__file__).with_name("base_images.txt").read_text(encoding="utf-8").split()
    for rule in MATRIX.base_images:
        others = replace(MATRIX, base_images=tuple(other for other in MATRIX.base_images if other is not rule))
        needed = any(base_of(name, MATRIX) != base_of(name, others) for name in examples)
        assert needed, f"no name in base_images.txt needs this pattern of base_images.csv; add one: {rule.pattern}"


@pytest.mark.parametrize(
    "name", ["mambaorg/micromamba:1.5.8-jammy-cuda-12.4.1", "ghcr.io/prefix-dev/pixi:0.41.4-noble-cuda-12.4.1"]
)
def test_images_built_on_nvidia_cuda_have_its_cuda_and_requirements(tmp_path: Path, name: str) -> None:
    base = base_of(name, MATRIX)
    assert (str(base.cuda), base.flavour, base.plain) == ("12.4", Flavour.BASE, False)
    assert base_of(f"{name.partition(':')[0]}:latest", MATRIX).plain
    found = report_on(tmp_path, f"FROM {name}\n{WHEEL}", ("driver=525.85.12", "gpu=NVIDIA GeForce RTX 3090"))
    assert [entry.code for entry in found.findings if entry.file] == ["DKF904"]
    assert report_on(tmp_path, f"FROM {name}", ("driver=450.80.02", "gpu=A100")).status is Status.UNFIT
    assert report_on(tmp_path, f"FROM {name}", A100).status is Status.FIT


def test_a_devel_image_of_pytorch_has_the_requirements_of_its_base(tmp_path: Path) -> None:
    geforce = ("driver=535.104.05", "gpu=NVIDIA GeForce RTX 3090")
    assert report_on(tmp_path, "FROM pytorch/pytorch:2.8.0-cuda12.8-cudnn9-devel", geforce).status is Status.UNFIT
    assert report_on(tmp_path, "FROM pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime", geforce).status is Status.FIT
    assert report_on(tmp_path, "FROM pytorch/pytorch:2.8.0-cuda12.8-cudnn9-devel", A100).status is Status.FIT


@pytest.mark.parametrize("tag", ["12.6.1-runtime-ubuntu20.04", "12.4.0-devel-rockylinux8", "11.8.0-base-ubi8"])
def test_an_unknown_image_of_nvidia_has_the_requirements_of_its_cuda(tmp_path: Path, tag: str) -> None:
    """535 with a data-centre GPU is let in by name, although its own CUDA is 12.2; a GeForce of R470 is not by 12.6."""
    assert report_on(tmp_path, f"FROM nvidia/cuda:{tag}", A100).status is Status.FIT
    geforce = report_on(tmp_path, f"FROM nvidia/cuda:{tag}", ("driver=450.80.02", "gpu=NVIDIA GeForce RTX 2080"))
    assert geforce.status is Status.UNFIT


def test_a_cuda_with_unknown_requirements_has_none(tmp_path: Path) -> None:
    """Neither as an image of NVIDIA's that the matrix lacks, nor as one that may or may not be made from it."""
    for name in ("nvidia/cuda:11.3.1-base-ubuntu20.04", "own/base:cuda12.6"):
        found = report_on(tmp_path, f"FROM {name}", ("driver=525.85.12", "gpu=A100"))
        assert (found.status, found.machines[0].requirements) == (Status.FIT, ())


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("nvcr.io/nvidia/l4t-pytorch:r35.1.0-pth1.13-py3", "jetson-tegra"),
        ("dustynv/l4t-ml:r36.2.0", "jetson-tegra"),
        ("nvcr.io/nvidia/pytorch:24.03-py3-igpu", "jetson-tegra"),
        ("rocm/dev-ubuntu-22.04:6.0.2", "rocm-mismatch"),
        ("rocm/pytorch:rocm7.1_ubuntu22.04_py3.10_pytorch_release_2.8.0", "rocm-mismatch"),
    ],
)
def test_the_name_of_a_base_may_show_another_kind_of_gpu(tmp_path: Path, name: str, cause: str) -> None:
    found = report_on(tmp_path, f"FROM {name}", A100)
    assert [entry.cause.value for entry in found.findings if entry.primary] == [cause]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("FROM nvcr.io/nvidia/pytorch:23.10-py3", Status.UNKNOWN),
        (f"FROM nvcr.io/nvidia/pytorch:23.10-py3\n{WHEEL}", Status.UNKNOWN),
        ("ARG BASE\nFROM $BASE", Status.UNKNOWN),
        ("FROM nvcr.io/nvidia/pytorch:23.10-py3\nRUN pip install 'cupy-cuda12x[ctk]==14.2.0'", Status.FIT),
        ("FROM node:22\nRUN npm ci", Status.FIT),
        ("FROM mcr.microsoft.com/devcontainers/python:3.12", Status.FIT),
        ("FROM own/base:cuda12.8", Status.FIT),
    ],
)
def test_an_unknown_base_is_not_fit(tmp_path: Path, text: str, status: Status) -> None:
    found = report_on(tmp_path, text, RTX_5090)
    assert found.status is status
    reasons = [reason for machine in found.machines for reason in machine.unknown]
    assert bool(reasons) is (status is Status.UNKNOWN)
    assert all("its name does not show it" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("text", "machine", "status"),
    [
        ("FROM nvidia/cuda:8.0-devel-ubuntu16.04", A100, Status.UNFIT),
        ("FROM nvidia/cuda:10.1-devel-ubuntu18.04", RTX_5090, Status.UNFIT),
        ("FROM nvcr.io/nvidia/cuda:10.1-devel-ubuntu18.04", ("driver=580.65.06", "gpu=V100"), Status.UNKNOWN),
        ("FROM condaforge/miniforge3:1\nRUN conda install cupy=14.1.0 cuda-version=13.0", A100, Status.UNFIT),
        ("FROM condaforge/miniforge3:1\nRUN conda install cupy=14.1.0 cuda-version=12.8", RTX_5090, Status.FIT),
        ("FROM ubuntu:24.04\nRUN apt-get install -y cuda-toolkit-12-4", RTX_5090, Status.UNFIT),
    ],
)
def test_every_source_of_cuda_is_checked_against_the_gpu(
    tmp_path: Path, text: str, machine: tuple[str, ...], status: Status
) -> None:
    assert report_on(tmp_path, text, machine).status is status


def test_services_with_an_image_are_checked_against_the_machine(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM nvidia/cuda:12.8.1-devel-ubuntu24.04\n{WHEEL}\n")
    path = tmp_path / "compose.yaml"
    path.write_text(
        "services:\n  db:\n    image: postgres:17\n  store:\n    image: minio/minio:1\n"
        "  old:\n    image: nvidia/cuda:12.4.1-devel-ubuntu22.04\n    gpus: all\n"
        "  model:\n    image: vllm/vllm-openai:v0.11.0\n    gpus: all\n  app:\n    build: .\n    gpus: all\n"
    )
    snapshot = assume(Snapshot(), (*RTX_5090, "os=linux", "arch=x86_64"), MATRIX)
    judged = judge_files([path], DockerfileOptions(), MATRIX)
    report = with_machines(file_report(path, judged, MATRIX), judged.targets, {"it": snapshot}, MATRIX, lambda: 0.0)
    assert {entry.machine: entry.status for entry in report.machines} == {
        "it (service old)": Status.UNFIT,
        "it (service model)": Status.UNKNOWN,
        "it (service app)": Status.FIT,
    }


@pytest.mark.parametrize(
    "name",
    ["docker.m.daocloud.io/nvidia/cuda:12.4.1-devel-ubuntu22.04", "harbor.example/proxy/nvidia/cuda:12.4.1-devel-ubi8"],
)
def test_a_mirror_has_the_images_of_docker_hub(name: str) -> None:
    base = base_of(name, MATRIX)
    assert (base.nvidia, str(base.cuda), base.flavour, base.text) == (True, "12.4", Flavour.DEVEL, name)
    assert base_of("public.ecr.aws/docker/library/python:3.12-slim", MATRIX).plain
    assert base_of("registry.example/python:3.12-slim", MATRIX).unknown


@pytest.mark.parametrize(
    "text",
    [
        "FROM nvidia/cuda:13.0.2-devel-ubuntu24.04\nRUN pip install cupy-cuda13x==14.2.0",
        "FROM nvidia/cuda:13.0.1-devel-ubuntu22.04\nRUN pip install cupy-cuda13x==14.2.0",
        "FROM cupy/cupy:v14.2.0",
    ],
)
def test_forward_compatibility_works_for_cupy(tmp_path: Path, text: str) -> None:
    """Forward compatibility: for data-centre GPUs alone, and only where the image has libraries of that CUDA."""
    found = report_on(tmp_path, text, A100)
    assert (found.status, [entry.code for entry in found.findings]) == (Status.DEGRADED, ["IMG903"])
    assert report_on(tmp_path, text, ("driver=535.104.05", "gpu=NVIDIA GeForce RTX 3090")).status is Status.UNFIT
    other = "FROM nvidia/cuda:12.9.1-devel-ubuntu24.04\nRUN pip install 'cupy-cuda13x[ctk]==14.2.0'"
    assert report_on(tmp_path, other, A100).status is Status.UNFIT


# What a Dockerfile builds for, and whether a machine of x86_64 runs it.


@pytest.mark.parametrize(
    ("start", "runs"),
    [
        ("FROM --platform=linux/arm64 {base}", False),
        ("ARG WHERE=linux/arm64/v8\nFROM --platform=$WHERE {base}", False),
        ("FROM --platform=linux/arm64 {base} AS one\nFROM one", False),
        ("FROM --platform=linux/amd64 {base} AS one\nFROM --platform=linux/arm64 one", True),
        ("FROM --platform=linux/arm64 python:3.12 AS tools\nFROM {base}\nCOPY --from=tools /x /x", True),
        ("FROM --platform=linux/amd64/v2 {base}", True),
        ("FROM --platform=$BUILDPLATFORM {base}", True),
        ("FROM --platform=${{TARGETPLATFORM:-linux/amd64}} {base}", True),
        ("FROM --platform=no/such/thing/here {base}", True),
    ],
)
def test_the_platform_of_the_image_is_checked_against_the_machine(tmp_path: Path, start: str, runs: bool) -> None:  # noqa: FBT001 - a table
    base = "nvidia/cuda:12.2.2-devel-ubuntu22.04"
    report = report_on(tmp_path, f"{start.format(base=base)}\n{WHEEL}", A100)
    assert [finding.code for finding in report.machines[0].findings] == ([] if runs else ["IMG901"])
