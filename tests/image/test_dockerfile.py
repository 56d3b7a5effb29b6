"""The findings of check-image in Dockerfiles, with their lines, and none in correct ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.image.inspect.image_facts import ImageError
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Severity
from gpuenv.model.redaction import hide_secrets
from tests.image.dockerfiles import CTK, DEVEL, PARTS, RUNTIME, SLIM, WHEEL, at, judged, located
from tests.support.planted_secrets import LONG_URL, shown_parts

if TYPE_CHECKING:
    from pathlib import Path

STUBS = "/usr/local/cuda/lib64/stubs"


@pytest.mark.parametrize(
    "text",
    [
        f"{SLIM}\n{CTK}",
        f"{SLIM}\nRUN uv pip install --system 'cupy-cuda13x[ctk]==14.2.0'",
        f"{SLIM}\nRUN pip install cupy-cuda12x==14.2.0 nvidia-cuda-runtime-cu12==12.9.79 nvidia-cuda-nvrtc-cu12",
        f"{DEVEL}\n{WHEEL}",
        f"{RUNTIME}\n{CTK}",
        f"{RUNTIME}\nRUN apt-get update && apt-get install -y cuda-cudart-dev-12-9\n{WHEEL}",
        "FROM nvidia/cuda:12.1.1-runtime-ubuntu22.04\nRUN pip install cupy-cuda12x==13.6.0",
        "FROM cupy/cupy:v14.2.0",
        f"FROM cupy/cupy:v14.2.0\nRUN pip uninstall -y cupy-cuda13x cupy-cuda12x\n{CTK}",
        "FROM cupy/cupy:v14.2.0\nRUN pip uninstall -y cupy-cuda13x cupy-cuda12x\nENV CUDA_VISIBLE_DEVICES=-1",
        f"{SLIM}\nRUN pip install numpy==2.3.1",
        "FROM python\nRUN pip install numpy",
        f"{SLIM} AS build\n{CTK}\n{SLIM}\nCOPY --from=build /usr/local /usr/local",
        "FROM mambaorg/micromamba:2.0.5\nRUN micromamba install -y -c conda-forge cupy=14.2.0 cuda-version=12.9",
        f"{SLIM}\n{CTK}\nRUN nvidia-smi || true\nRUN python -c 'import cupy'",
        f"{SLIM}\n{CTK}\nRUN nvidia-smi && nvcc --version || true",
        f"{SLIM}\n{CTK}\nRUN python3 -c 'import cupy; cupy.arange(3)' && echo ok || echo 'no GPU here'",
        f"{SLIM}\n{CTK}\nRUN (nvidia-smi) || true",
        f"{SLIM}\n{CTK}\nRUN {{ nvidia-smi && deviceQuery; }} || true",
        f"{SLIM}\n{CTK}\nRUN test -e x || (nvidia-smi; deviceQuery)",
        f"{SLIM}\n{CTK}\nRUN nvidia-smi && ls; ls",
        f"{SLIM}\n{CTK}\nRUN nvidia-smi &",
        f"{SLIM}\n{CTK}\nRUN nvidia-smi && ls || {{ if x; then exit 1; fi; }}",
        f"{SLIM}\n{CTK}\nRUN python3 -m pip list && cat > t.py <<'EOF'\nimport cupy as cp\ncp.arange(3)\nEOF",
        f"{SLIM}\n{CTK}\nRUN python3 x.py && cat > t.py <<'EOF'\nimport cupy as cp\ncp.arange(3)\nEOF",
        f"{SLIM}\n{CTK}\nRUN <<EOS\ncat > /e.sh <<'EOF'\nnvidia-smi\npip install cupy-cuda11x\nEOF\nchmod 1 /e.sh\nEOS",
        f"{SLIM}\n{CTK}\nRUN cat > /e.sh <<'EOF' && chmod +x /e.sh\nnvidia-smi\nEOF",
        f"{SLIM}\n{CTK}\nRUN if nvidia-smi; then echo yes; fi",
        f"{SLIM}\n{CTK}\nRUN set -e; nvidia-smi && ls; ls",
        f"{SLIM}\n{CTK}\nRUN set -e; {{ nvidia-smi; ls; }} && ls; ls",
        f"{SLIM}\n{CTK}\nRUN set -e; which nvidia-smi && nvidia-smi; ls",
        f"{SLIM}\n{CTK}\nRUN set -e; command -v nvidia-smi >/dev/null && nvidia-smi; ls",
        f'{SLIM}\n{CTK}\nSHELL ["bash", "-ec"]\nRUN grep -q nvidia /proc/modules && nvidia-smi; ls',
        f"{SLIM}\n{CTK}\nRUN curl -o /bin/nvidia-smi a.test && command -v nvidia-smi",
        f"{DEVEL}\nRUN grep -q 11 /v && pip install cupy-cuda11x; true\n{WHEEL}",
        f"{SLIM}\n{CTK}\nRUN set -e; test -e /dev/nvidia0 || exit 0; nvidia-smi",
        f"{SLIM}\n{CTK}\nRUN [ -e /dev/nvidia0 ] || {{ echo none; exit 0; }}; nvidia-smi",
        f"{DEVEL}\nRUN if [ $V = 12 ]; then exit; fi; pip install cupy-cuda11x\n{WHEEL}",
        f'{SLIM}\n{CTK}\nSHELL ["bash", "-ec"]\nRUN diff <(nvidia-smi) x; tee >(nvidia-smi) < <(nvidia-smi)',
        f"{SLIM}\n{CTK}\nRUN set -e; ls; set +e; nvidia-smi; ls",
        f"{SLIM}\n{CTK}\nRUN set -o errexit; set +o errexit; nvidia-smi; ls",
        f"{SLIM}\n{CTK}\nRUN (set -e; ls); nvidia-smi; ls",
        f"{SLIM}\n{CTK}\nRUN set -e; bash -c 'nvidia-smi; ls'",
        f"{SLIM}\n{CTK}\nRUN set -- -e; nvidia-smi; ls",
        f"{SLIM}\n{CTK}\nRUN bash -s -- -e <<EOF\nnvidia-smi\nls\nEOF",
        f"{SLIM}\n{CTK}\nRUN set -e; ls\nRUN nvidia-smi; ls",
        f"{SLIM}\n{CTK}\nRUN check() {{ nvidia-smi; }}",
        f"{SLIM}\n{CTK}\nRUN set -e; function check {{ ls; nvidia-smi; }}; ls",
        f"{SLIM}\n{CTK}\nRUN command -v nvidia-smi; [ -e /dev/nvidia0 ] && nvidia-smi; ls",
        f'{SLIM}\n{CTK}\nSHELL ["bash", "-ec"]\nSHELL ["sh", "-c"]\nRUN nvidia-smi; ls',
        f'{SLIM} AS a\nSHELL ["bash", "-ec"]\n{SLIM}\n{CTK}\nRUN nvidia-smi; ls',
        f"{DEVEL}\nRUN [ $V = 11 ] && pip install cupy-cuda11x || true\n{WHEEL}",
        f"{DEVEL}\nARG V=12\nRUN [ -n $V ] || V=11; pip install cupy-cuda${{V}}x",
        f"{SLIM}\n{CTK}\nRUN if command -v nvidia-smi; then nvidia-smi; fi",
        f"{SLIM}\nRUN apt-get update && apt-get install -y cuda-toolkit-12-9 libnvidia-container1\n{WHEEL}",
        f"{SLIM}\nRUN pip install cupy-cuda11x==13.6.0 && pip uninstall -y cupy-cuda11x\n{CTK}",
        f"{SLIM}\nENV LD_LIBRARY_PATH=/opt/lib:/usr/local/nvidia/lib64\n{CTK}",
        f"{SLIM}\n# RUN pip install cupy\nLABEL note='RUN pip install cupy nvidia-driver-535'\n{CTK}",
        f"{SLIM}\nRUN echo pip install cupy\n{CTK}",
        "FROM my.registry:5000/team/base:1\nRUN pip install cupy-cuda12x==14.2.0",
        "ARG BASE\nFROM ${BASE}\nRUN pip install cupy-cuda12x==14.2.0",
        f"ARG V=14.2.0\n{SLIM}\nARG V\nRUN pip install cupy-cuda12x[ctk]==${{V}}",
        f"{SLIM}\nARG V\nRUN pip install cupy-cuda12x[ctk]==$V",
        "FROM python:3.12-slim AS one\nARG E=[ctk]\nFROM one\nRUN pip install cupy-cuda12x$E==14.2.0",
        f"{SLIM}\n{CTK}\nRUN --device=nvidia.com/gpu=all nvidia-smi",
        f"{SLIM}\nRUN pip install torch==2.9.0 'cupy-cuda12x==14.2.0'",
        "FROM scratch\nCOPY x /x",
        f"{PARTS}\nRUN pip install cupy-cuda12x==13.6.0",
        f"{SLIM}\nCOPY --from=nvidia/cuda:12.9.1-devel-ubuntu24.04 /usr/local/cuda /usr/local/cuda\n{WHEEL}",
        f"{DEVEL} AS cuda\n{SLIM}\nCOPY --from=cuda /usr/local/cuda-12.9/ /opt/cuda\n{WHEEL}",
        f"{SLIM}\nRUN pip install 'jax[cuda12]' cupy-cuda12x==14.2.0",
        f"{SLIM}\nRUN pip install 'tensorflow[and-cuda]==2.21.0' cupy-cuda12x==14.2.0",
        f"{DEVEL}\nRUN pip install cupy-cuda12x==14.2.0 || pip install cupy-cuda12x==13.6.0",
        PARTS.replace("RUN apt-get install -y ", "ENV P='")
        + "'\nRUN apt-get install -y $P\nRUN pip install cupy-cuda12x==13.6.0",
        f"{SLIM}\nRUN if a; then pip install 'cupy-cuda13x[ctk]==14.2.0'; else {CTK[4:]}; fi",
    ],
)
def test_a_correct_dockerfile_has_no_findings(tmp_path: Path, text: str) -> None:
    assert located(judged(tmp_path, text)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"{SLIM}\nRUN apt-get update \\\n && apt-get install -y curl \\\n    nvidia-driver-535\n{CTK}",
            at(("DKF901", 4)),
        ),
        (f"{SLIM}\nRUN apt-get install -y cuda-12-9\n{CTK}", at(("DKF901", 2))),
        (f"{SLIM}\nRUN dnf install -y cuda-drivers-580\n{CTK}", at(("DKF901", 2))),
        (f"{SLIM}\nRUN apt-get install -y libcuda1 libnvidia-ml1\n{CTK}", at(("DKF901", 2), ("DKF901", 2))),
        (f"{SLIM}\nRUN sh ./NVIDIA-Linux-x86_64-535.104.05.run --silent\n{CTK}", at(("DKF901", 2))),
        (f"{SLIM}\nRUN sh cuda_12.4.1_550.54.15_linux.run --silent --toolkit\n{CTK}", []),
        (f"{SLIM}\nRUN sh cuda_12.4.1_550.54.15_linux.run --silent\n{CTK}", at(("DKF901", 2))),
        (f"{SLIM}\nRUN sh cuda_12.4.1_550.54.15_linux.run --silent --driver --toolkit\n{CTK}", at(("DKF901", 2))),
        (f"{SLIM}\nRUN sh cuda_12.4.1_550.54.15_linux.run --silent --extract=/x\n{CTK}", []),
        (f"{SLIM}\nRUN apt-get install -y nvidia-cuda-toolkit\n{WHEEL}", at(("DKF901", 2))),
        (f"{SLIM}\nRUN apt-get install -y nvidia-tesla-470-driver libnvidia-nvvm4\n{CTK}", at(("DKF901", 2)) * 2),
        (f"{SLIM}\nRUN apt-get install -y nvidia-detect libnvidia-egl-wayland1 nvidia-cudnn\n{CTK}", []),
        (f"{SLIM}\nCOPY libcuda.so.535.104.05 /usr/lib/\n{CTK}", at(("DKF901", 2))),
        (f"{DEVEL}\nRUN pip install cupy-cuda11x==13.6.0", at(("DKF902", 2))),
        (f"{DEVEL}\nRUN pip install cupy-cuda13x==14.2.0", at(("DKF902", 2))),
        (f"{DEVEL}\nRUN pip install 'cupy-cuda13x[ctk]==14.2.0'", []),
        ("FROM nvidia/cuda:11.8.0-devel-ubuntu22.04\nRUN pip install cupy-cuda111==12.3.0", at(("DKF902", 2))),
        (f"{SLIM}\nRUN pip install torch==2.12.0 cupy-cuda12x==14.2.0", at(("DKF904", 2))),
        (
            f"{SLIM}\nRUN pip install torch --index-url https://download.pytorch.org/whl/cu118\n{WHEEL}",
            at(("DKF904", 3)),
        ),
        (f"{RUNTIME}\nRUN pip install --root-user-action ignore cupy-cuda12x==14.2.0", at(("DKF903", 2))),
        (f"{RUNTIME}\nRUN uv pip install -n cupy-cuda12x==14.2.0 --python-platform linux", at(("DKF903", 2))),
        (f"{RUNTIME}\n{WHEEL}", at(("DKF903", 2))),
        (f"{RUNTIME}\nRUN pip install cupy-cuda12x==13.6.0", at(("DKF903", 2))),
        (f"{PARTS.replace('-dev', '')}\nRUN pip install cupy-cuda12x==13.6.0", at(("DKF903", 3))),
        (
            f"{SLIM}\nRUN apt-get install -y cuda-libraries-12-6\nRUN pip install cupy-cuda12x==13.6.0",
            at(("DKF903", 3)),
        ),
        (f"{SLIM}\nRUN apt-get install -y cuda-toolkit-12-6\nRUN pip install cupy-cuda12x==13.6.0", []),
        (f"{RUNTIME}\nRUN pip install cupy-cuda12x==13.6.0 nvidia-cuda-runtime-cu12==12.9.*", []),
        (f"{RUNTIME}\nRUN pip install cupy-cuda12x==13.4.1", at(("DKF903", 2))),
        ("FROM nvidia/cuda:11.8.0-runtime-ubuntu22.04\nRUN pip install cupy-cuda11x==13.6.0", []),
        (f"{RUNTIME.replace('runtime', 'cudnn-runtime')}\n{WHEEL}", at(("DKF903", 2))),
        (f"{RUNTIME.replace('runtime', 'base')}\n{WHEEL}", at(("DKF904", 2))),
        (f"{SLIM}\n{WHEEL}", at(("DKF904", 2))),
        (f"{SLIM}\nRUN pip install 'cupy-cuda12x[ctk]==13.6.0'", at(("DKF904", 2))),
        (f"{SLIM}\nRUN pip install cupy-cuda11x==13.6.0\n{CTK}", at(("DKF904", 2), ("DKF905", 3))),
        (f"FROM cupy/cupy:v14.2.0\n{CTK}", at(("DKF905", 2))),
        (f"{PARTS.replace('libcurand-12-2 ', '')}\nRUN pip install cupy-cuda12x==13.6.0", []),
        (f"{PARTS.replace('cuda-nvrtc-12-2 ', '')}\nRUN pip install cupy-cuda12x==13.6.0", at(("DKF904", 3))),
        ("FROM condaforge/miniforge3:25.3.0-3\nRUN conda install -y cupy=14.1\nRUN pip install cupy==14.1.0", []),
        ("FROM nvidia/cuda:10.2-devel-ubuntu18.04", at(("DKF915", 1))),
        ("ARG CUDA=notset\nFROM nvidia/cuda:${CUDA}-devel-ubuntu24.04", []),
        ("ARG CUDA=?\nFROM nvidia/cuda:${CUDA}-devel-ubuntu24.04", []),
        ("ARG CUDA=\nFROM nvidia/cuda:${CUDA}", []),
        (f"{SLIM}\nCOPY --from=nvidia/cuda:12.9.1-runtime-ubuntu24.04 /usr/local/cuda /c\n{WHEEL}", []),
        (f"{SLIM}\nCOPY --from=nvidia/cuda:12.9.1-devel-ubuntu24.04 /usr/bin/nvcc /c\n{WHEEL}", at(("DKF904", 3))),
        (
            f"{SLIM}\nCOPY --from=nvidia/cuda:11.8.0-devel-ubuntu22.04 /usr/local/cuda /usr/local/cuda\n{WHEEL}",
            at(("DKF902", 3)),
        ),
        (f"{SLIM}\nRUN pip install 'jax[cuda13]' cupy-cuda12x==14.2.0", at(("DKF904", 2))),
        ("FROM mambaorg/micromamba:2.0.5\nRUN micromamba install -y cupy cuda-version=12.9", []),
        (f"{DEVEL}\nRUN pip install cupy==14.2.0", at(("DKF906", 2))),
        (f"{SLIM}\nRUN pip3 install cupy", at(("DKF906", 2))),
        (f"{SLIM}\nRUN python3 -m pip install --no-binary cupy-cuda12x 'cupy-cuda12x[ctk]==14.2.0'", at(("DKF906", 2))),
        (f"{DEVEL}\nRUN pip install git+https://github.com/cupy/cupy.git@v14.2.0", at(("DKF906", 2))),
        (f"FROM nvidia/cuda\n{WHEEL}", at(("DKF915", 1))),
        (f"FROM nvidia/cuda:latest\n{WHEEL}", at(("DKF915", 1))),
        (f"{DEVEL}\nRUN ldconfig /usr/local/cuda-12.9/compat/", at(("DKF911", 2))),
        ("FROM nvcr.io/nvidia/pytorch:25.04-py3\nRUN pip install cupy-cuda111==12.3.0", at(("DKF902", 2))),
        (f"{DEVEL}\nENV LD_LIBRARY_PATH=/usr/local/cuda/compat:$LD_LIBRARY_PATH", at(("DKF911", 2))),
        (f"{DEVEL}\nENV A=1 \\\n    LD_LIBRARY_PATH=/usr/local/cuda-12.9/compat", at(("DKF911", 3))),
        (f"{DEVEL}\nENV LD_LIBRARY_PATH /usr/local/cuda/lib64/stubs", []),
        (f"{DEVEL}\nRUN cd {STUBS} && ln -s libcuda.so libcuda.so.1\nENV LD_LIBRARY_PATH {STUBS}", at(("DKF911", 3))),
        (f"{DEVEL}\nRUN echo /usr/local/cuda/compat > /etc/ld.so.conf.d/0.conf", at(("DKF911", 2))),
        (f"{SLIM}\n{CTK}\nRUN nvidia-smi", at(("DKF912", 3))),
        (f"{SLIM}\n{CTK}\nRUN true || ls && nvidia-smi", at(("DKF912", 3))),
        (f"{SLIM}\n{CTK}\nRUN (ls || nvidia-smi) && nvidia-smi && ls", at(("DKF912", 3))),
        (f"{SLIM}\n{CTK}\nRUN {{ ls; nvidia-smi; }} && ls", at(("DKF912", 3))),
        (f"{SLIM}\n{CTK}\nRUN nvidia-smi && if a; then b; fi", at(("DKF912", 3))),
        (f"{SLIM}\n{CTK}\nRUN nvidia-smi && ls || exit 1", at(("DKF912", 3))),
        (f"{SLIM}\n{CTK}\nRUN nvidia-smi && ls || (echo no; exit 1)", at(("DKF912", 3))),
        (f"{SLIM}\n{CTK}\nRUN nvidia-smi && ls || {{ echo no && exit 1; }} && ls", at(("DKF912", 3))),
        (f"{SLIM}\n{CTK}\nRUN <<EOS\nls &&\n\n  nvidia-smi\nEOS", at(("DKF912", 6))),
        (f"{SLIM}\n{CTK}\nRUN python3 -u - x <<EOF\nimport cupy as cp\ncp.arange(3)\nEOF", at(("DKF912", 3))),
        (f"{SLIM}\n{CTK}\nRUN cat <<EOF | python3\nimport cupy as cp\ncp.arange(3)\nEOF", at(("DKF912", 3))),
        (f"{SLIM}\n{CTK}\nRUN <<EOS\npython3 <<'EOF'\nimport cupy as cp\ncp.arange(3)\nEOF\nEOS", at(("DKF912", 4))),
        (f"{SLIM}\n{CTK}\nRUN <<EOS\nbash <<-'EOF'\n\tnvidia-smi\n\tEOF\nEOS", at(("DKF912", 5))),
        (f"{SLIM}\n{CTK}\nRUN <<EOS\ncat <<A >b\nA\nnvidia-smi\nEOS", at(("DKF912", 6))),
        (f"{SLIM}\n{CTK}\nRUN ls && bash -e <<EOF && ls\nls\nnvidia-smi\nEOF", at(("DKF912", 5))),
        (f"{SLIM}\n{CTK}\nRUN gpuenv -q doctor", at(("DKF912", 3))),
        (f"{SLIM}\n{CTK}\nRUN set -e; nvidia-smi && ls || exit 1; ls", at(("DKF912", 3))),
        (f"{SLIM}\n{CTK}\nRUN set -e; skip() {{ exit 0; }}; (ls || exit 0); ls || exit; nvidia-smi", at(("DKF912", 3))),
        (f"{SLIM}\n{CTK}\nRUN set -Eeuo pipefail; nvidia-smi; ls", at(("DKF912", 3))),
        (f"{SLIM}\n{CTK}\nRUN set -o pipefail -o errexit; (nvidia-smi; ls); ls", at(("DKF912", 3))),
        (f"{SLIM}\n{CTK}\nRUN bash -o errexit -c 'nvidia-smi; ls'", at(("DKF912", 3))),
        (f"{SLIM}\n{CTK}\nRUN <<EOF\n#!/bin/bash -e\nnvidia-smi\nls\nEOF", at(("DKF912", 5))),
        (f"{SLIM}\n{CTK}\nRUN <<EOF bash -ex\nnvidia-smi\nls\nEOF", at(("DKF912", 4))),
        (f'{SLIM}\n{CTK}\nRUN ["bash", "-l", "-ec", "nvidia-smi; ls"]', at(("DKF912", 3))),
        (f'{SLIM}\n{CTK}\nSHELL ["bash", "-euo", "pipefail", "-c"]\nRUN nvidia-smi; ls', at(("DKF912", 4))),
        (f'{SLIM} AS a\nSHELL ["bash", "-ec"]\nFROM a\n{CTK}\nRUN <<E\nnvidia-smi\nls\nE', at(("DKF912", 6))),
        (f'{SLIM}\n{CTK}\nSHELL ["conda", "run", "-n", "a", "bash", "-ec"]\nRUN nvidia-smi; ls', at(("DKF912", 4))),
        (f"{SLIM}\n{CTK}\nRUN if true; then true; fi; nvidia-smi", at(("DKF912", 3))),
        (f'{SLIM}\n{CTK}\nRUN python -c "import cupy; cupy.zeros(3)"', at(("DKF912", 3))),
        (f"{SLIM}\n{CTK}\nRUN python3 <<EOF\nimport cupy as cp\ncp.arange(3)\nEOF", at(("DKF912", 3))),
        (f"{SLIM}\n{CTK}\nENV CUDA_VISIBLE_DEVICES=-1", at(("DKF913", 3))),
        (f"{SLIM}\n{CTK}\nENV CUDA_VISIBLE_DEVICES=", at(("DKF913", 3))),
        (f"{SLIM}\n{CTK}\nENV CUDA_VISIBLE_DEVICES=0", []),
        (f"{SLIM}\n{CTK}\nENV NVIDIA_DRIVER_CAPABILITIES=utility", at(("DKF913", 3))),
        (f"{SLIM}\n{CTK}\nENV NVIDIA_VISIBLE_DEVICES=void", at(("DKF913", 3))),
        (f"{SLIM}\n{CTK}\nENV CUPY_ACCELERATORS=cub,cudnn", at(("DKF919", 3))),
        (f"{SLIM}\n{CTK}\nENV CUPY_ACCELERATORS=cub,cutensor CUPY_CACHE_DIR=/cache", []),
        (f"{SLIM}\n{CTK}\nENV CUPY_GPU_MEMORY_LIMIT=8GB", at(("DKF919", 3))),
        (f"{SLIM}\n{CTK}\nENV CUPY_CACHE_DIR=", at(("DKF919", 3))),
        (f"{SLIM}\n{CTK}\nENV CUPY_ENABLE_UMP=$UMP", []),
        (f"{DEVEL}\nENV CUDA_PATH=/usr/local/cuda-11.8", at(("DKF916", 2))),
        (f"{DEVEL}\nENV CUDA_PATH=/usr/local/cuda-12.9", []),
        (f"FROM python:3.12-alpine\n{CTK}", at(("DKF914", 2))),
        (f"FROM python:3.8-slim\n{CTK}", at(("DKF914", 2))),
        (f"FROM nvidia/cuda:12.7.0-devel-ubuntu24.04\n{WHEEL}", at(("DKF915", 1))),
        (f"FROM nvidia/cuda:12.9.1-devel\n{WHEEL}", at(("DKF915", 1))),
        (f"FROM nvidia/cuda:12.9.1-devel-cudnn8-ubuntu22.04\n{WHEEL}", at(("DKF915", 1))),
        (f"FROM nvcr.io/nvidia/cuda:13.0.0-tensorrt-devel-ubuntu24.04\n{WHEEL}", at(("DKF902", 2))),
        (f"FROM nvidia/cuda:12.1-devel-ubuntu22.04\n{WHEEL}", at(("DKF915", 1))),
        ("FROM nvidia/cuda:11.0-devel-ubuntu20.04", at(("DKF915", 1))),
        (f"FROM ub}}ntu:24.04\n{CTK}", at(("DKF918", 1))),
        (f"FROM Python:3.12-slim\n{CTK}", at(("DKF918", 1))),
        (f"FROM python:3.12:slim\n{CTK}", at(("DKF918", 1))),
        (f"FROM python:{'3.12' * 40}\n{CTK}", at(("DKF918", 1))),
        (f"FROM python:$VERSION}}\n{CTK}", at()),
        (f"FROM python:3.{'9' * 20}-slim\n{CTK}", at()),
        (f"FROM nvidia/cuda:{'9' * 20}.1.0-devel-ubuntu24.04\n{CTK}", at()),
    ],
)
def test_an_error_is_found_in_its_line(tmp_path: Path, text: str, expected: list[tuple[str, str, int]]) -> None:
    found = judged(tmp_path, text)
    assert located(found) == expected
    assert {each.cause for each in found.findings} <= {Cause.DOCKERFILE_FAULT}
    assert all(each.fix and each.title for each in found.findings)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# escape=`\nFROM python:3.12-slim\nRUN echo a `\n  && pip install cupy", 4),
        (f"{SLIM}\nRUN <<EOF\nset -e\npip install cupy\nEOF", 4),
        (f"{SLIM}\nRUN bash <<EOF\npip install \\\n  cupy\nEOF", 4),
        (f"{SLIM}\nRUN true \\\n# a comment\n\n  && pip install cupy", 5),
        (f'{SLIM}\nRUN ["pip", "install", "cupy"]', 2),
        (f'{SLIM}\nRUN ["bash", "-c", "pip install cupy"]', 2),
        (f"{SLIM}\nRUN sudo -H env A=1 /opt/venv/bin/pip3.12 install cupy", 2),
        (f"{SLIM}\nRUN bash -lc 'source a; pip install cupy'", 2),
        (f"{SLIM}\nRUN --mount=type=cache,target=/root/.cache pip install cupy", 2),
        (f"{SLIM}\nENV NAME=cupy\nRUN pip install ${{NAME}}", 3),
        (f"{SLIM}\nARG NAME=cupy\nRUN pip install ${{NAME}}", 3),
        (f"ARG NAME=cupy\n{SLIM}\nARG NAME\nRUN pip install ${{NAME:-numpy}}", 4),
        (f"{SLIM}\nRUN pip install ${{UNSET:-cupy}}", 2),
        ("FROM python:3.12-slim AS a\nRUN pip install cupy\nFROM a AS b\nRUN true", 2),
        (f"{SLIM}\r\nRUN pip install cupy\r", 2),
        (f"\ufeff{SLIM}\nrun pip install cupy", 2),
    ],
)
def test_every_syntax_is_parsed(tmp_path: Path, text: str, line: int) -> None:
    assert located(judged(tmp_path, text)) == at(("DKF906", line))


@pytest.mark.parametrize(
    "text",
    [
        f"{DEVEL}\nRUN if a; then pip install cupy-cuda11x==13.6.0; fi",
        f"{SLIM}\n{CTK}\nRUN case $x in a) pip install 'cupy-cuda13x[ctk]==14.2.0';; esac",
        f"{SLIM}\nRUN test -e x || pip install cupy-cuda12x==14.2.0",
        f"{SLIM}\nRUN for i in 11 12; do pip install cupy-cuda${{i}}x; done",
        f"{SLIM}\nRUN ./install_cuda.sh\n{WHEEL}",
        f"{SLIM}\nRUN make deps\n{WHEEL}",
        f"{SLIM}\nCOPY pyproject.toml .\nRUN poetry install\n{WHEEL}",
        f"{DEVEL}\nRUN xargs pip install < list.txt\n{WHEEL}",
        f"{DEVEL}\nCOPY . .\nRUN pip install -r made/by/another/step.txt",
    ],
)
def test_an_unknown_install_is_a_note(tmp_path: Path, text: str) -> None:
    (found,) = judged(tmp_path, text).findings
    assert (found.code, found.severity) == ("DKF917", Severity.NOTE)


@pytest.mark.parametrize(
    "text",
    [
        f"{SLIM}\nRUN ./configure.sh\n{WHEEL}",
        f"{DEVEL}\nRUN make install\nRUN pip install cupy-cuda11x==13.6.0",
        f"{SLIM}\nRUN if a; then apt-get install -y vim; fi\nRUN ./x.sh\n{WHEEL}",
    ],
)
def test_an_unknown_install_unrelated_to_cuda_leaves_a_warning(tmp_path: Path, text: str) -> None:
    assert {each.severity for each in judged(tmp_path, text).findings} == {Severity.WARNING, Severity.NOTE}


def test_an_unknown_install_does_not_matter_without_gpu_software(tmp_path: Path) -> None:
    text = f"{SLIM}\nRUN ./install.sh && make && if a; then pip install flask; fi"
    assert judged(tmp_path, text).findings == ()


def test_a_line_without_the_extra_gets_another_fix(tmp_path: Path) -> None:
    (found,) = judged(tmp_path, f"{SLIM}\nRUN pip install cupy-cuda11x==13.6.0").findings
    assert '"cupy-cuda12x[ctk]" or "cupy-cuda13x[ctk]"' in found.fix[0].text


def test_a_target_and_arguments_are_chosen(tmp_path: Path) -> None:
    text = (
        f"ARG CUDA=12.9.1\nFROM nvidia/cuda:${{CUDA}}-devel-ubuntu22.04 AS twelve\n{WHEEL}\n"
        "FROM nvidia/cuda:11.8.0-devel-ubuntu22.04 AS eleven\nRUN pip install cupy-cuda11x==13.6.0"
    )
    assert located(judged(tmp_path, text)) == []
    assert located(judged(tmp_path, text, arguments={"CUDA": "11.8.0"})) == at(("DKF902", 3))
    assert located(judged(tmp_path, text, arguments={"CUDA": "11.8.0"}, target="eleven")) == []
    with pytest.raises(ImageError, match="no stage ten"):
        judged(tmp_path, text, target="ten")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: there is no FROM"),
        ("RUN true", "line 1: RUN before"),
        ("FROM a\nRUNN true", "line 2: 'RUNN'"),
        ("FROM\n", "line 1: FROM"),
        ("FROM a\nRUN <<EOF\ntrue", "line 2: the heredoc <<EOF has no end"),
        ("# escape=x\nFROM a", "line 1: escape=x"),
        ("FROM a\0", "line 1: a NUL"),
        ("FROM a\n" + "x" * (1 << 20), "larger than|more than"),
    ],
)
def test_an_invalid_dockerfile_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ImageError, match=message) as caught:
        judged(tmp_path, text)
    assert caught.value.is_input


def test_the_supported_pythons_are_listed_as_versions(tmp_path: Path) -> None:
    found = judged(tmp_path, 'FROM python:3.9-slim\nRUN pip install "cupy-cuda12x[ctk]==14.2.0"')
    assert "Use a Python of 3.10, 3.11, 3.12," in found.findings[0].fix[0].text


def test_a_pin_to_text_that_is_no_version_is_no_pin(tmp_path: Path) -> None:
    found = judged(tmp_path, "FROM nvidia/cuda:12.9.1-devel-ubuntu24.04\nRUN pip install cupy-cuda12x===latest\n")
    assert found.findings == ()


def test_a_long_command_is_not_cut_within_a_secret(tmp_path: Path) -> None:
    fetch = f"./fetch_cuda.sh {LONG_URL.line}"
    for command in (fetch, f"if a; then {fetch}; fi"):
        notes = judged(tmp_path, f"{SLIM}\nRUN {command}\n{WHEEL}").findings
        assert "fetch_cuda" in str(notes)
        assert shown_parts(LONG_URL, hide_secrets(str(notes))) == []


def test_a_long_library_path_is_not_cut_within_a_secret(tmp_path: Path) -> None:
    path = f"/usr/local/cuda/compat:{LONG_URL.line}"
    (found,) = judged(tmp_path, f"{DEVEL}\nENV LD_LIBRARY_PATH={path}").findings
    assert found.code == "DKF911"
    assert shown_parts(LONG_URL, hide_secrets(str(found.evidence))) == []
