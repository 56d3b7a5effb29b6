"""Install commands in every form, and what they install."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.image.dockerfile.variables import substitute
from tests.image.dockerfiles import DEVEL, judged, located
from tests.image.test_cupy_lines import codes

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RUN pip install https://example.org/d/cupy_cuda11x-13.6.0-cp312-cp312-manylinux2014_x86_64.whl", ["DKF902"]),
        ("RUN pip install 'cupy-cuda12x @ https://example.org/cupy_cuda12x-13.6.0-cp312-cp312-linux_x86_64.whl'", []),
        ("RUN pip install 'cupy @ git+https://github.com/cupy/cupy@v13.6.0'", ["DKF906"]),
        ("RUN LINE=cupy-cuda11x; pip install $LINE==13.6.0", ["DKF902"]),
        ("RUN P='numpy cupy-cuda11x==13.6.0'; pip install $P", ["DKF902"]),
        ("ENV P='numpy cupy-cuda11x==13.6.0 $Q'\nRUN pip install $P", []),  # $Q may be CUDA 11
        ("ENV P='numpy cupy-cuda11x==13.6.0'\nRUN pip install ${P}", ["DKF902"]),
        ("ENV P=numpy\\ cupy-cuda11x==13.6.0\nRUN pip install $P", ["DKF902"]),
        ("ARG P=\"numpy cupy-cuda11x==13.6.0\" Q='a b'\nRUN pip install $Q $P", ["DKF902"]),
        ("ENV OPTIONS='' P='pip install'\nRUN $OPTIONS $P cupy-cuda11x==13.6.0", ["DKF902"]),
        ("ENV P='numpy cupy-cuda11x==13.6.0'\nRUN pip install \"$P\"", []),
        ("RUN export A=11 B=13.6.0 && pip install cupy-cuda${A}x==$B", ["DKF902"]),
        ('RUN A=11 && bash -c "pip install cupy-cuda${A}x==13.6.0"', ["DKF902"]),
        ("RUN A=11 bash -c 'pip install cupy-cuda${A}x==13.6.0'", ["DKF902"]),
        ("RUN A=12; if x; then A=11; fi; pip install cupy-cuda${A}x==13.6.0", []),
        ("RUN for A in 11 12; do pip install cupy-cuda${A}x==13.6.0; done", []),
        ("RUN for A in $(ls /a); do pip install cupy-cuda${A}x==13.6.0; done", []),
        ("RUN (A=11); pip install cupy-cuda12x==13.6.0", []),
        ("RUN PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cu126 pip install torch cupy-cuda12x==13.6.0", []),
        ("RUN export UV_TORCH_BACKEND=cu126; uv pip install torch cupy-cuda12x==13.6.0", []),
        ("COPY c.txt /\nENV PIP_CONSTRAINT=/c.txt\nRUN pip install cupy-cuda12x", []),
        ("COPY c.txt /\nRUN UV_CONSTRAINT=/c.txt uv pip install cupy-cuda12x", []),
        ("COPY semicolon.txt /\nRUN pip install -r /semicolon.txt", ["DKF902"]),
        ("RUN pip --no-cache-dir install cupy-cuda11x==13.6.0", ["DKF902"]),
        ("RUN python3 -m pip -q --timeout 60 install cupy-cuda11x==13.6.0", ["DKF902"]),
        ("RUN python3 -mpip install cupy-cuda11x==13.6.0", ["DKF902"]),
        ("COPY semicolon.txt /\nRUN python3 -u -mpip install -r /semicolon.txt", ["DKF902"]),
        ("RUN python3 -m uv pip install --system cupy-cuda11x==13.6.0", ["DKF902"]),
        ("RUN pip install cupy-cuda11x==13.6.0 -c <(grep -v cupy /r.txt)", ["DKF902"]),
        ("RUN python3 -m venv /pip && python3 -mvenv pip", []),
        ("RUN pip install --dry-run cupy-cuda11x==13.6.0", []),
        ("RUN uv pip install --system --dry-run cupy-cuda11x==13.6.0", []),
        ("RUN uv pip --no-cache install cupy-cuda11x==13.6.0", ["DKF902"]),
        ("RUN pip install cupy-cuda11x==13.6.0 && pip -q uninstall -y cupy-cuda11x", []),
        ("COPY semicolon.txt /\nRUN uv pip --quiet sync /semicolon.txt", ["DKF902"]),
        ("COPY semicolon.txt /\nRUN pip install -Uqr /semicolon.txt", ["DKF902"]),
        ("COPY semicolon.txt /\nRUN pip install -qr/semicolon.txt", ["DKF902"]),
        ("RUN pip install -Uq cupy-cuda11x==13.6.0", ["DKF902"]),
        ("RUN sudo -Hu me pip install cupy-cuda11x==13.6.0", ["DKF902"]),
        ("RUN sudo -ume -g us --user me nice -n 10 pip install cupy-cuda11x==13.6.0", ["DKF902"]),
        ("RUN env -i -u A B=C timeout -k 5 -s KILL 9 pip install cupy-cuda11x==13.6.0", ["DKF902"]),
    ],
)
def test_every_form_of_an_install_command_is_parsed(tmp_path: Path, text: str, expected: list[str]) -> None:
    files = {"c.txt": "cupy-cuda12x==13.6.0\n", "semicolon.txt": "cupy-cuda11x==13.6.0;\n"}
    assert codes(tmp_path, f"{DEVEL}\n{text}", files) == expected


def test_an_option_is_read_as_the_program_does(tmp_path: Path) -> None:
    """The option -n of uv takes no value."""
    project = '[project]\nname = "a"\nversion = "1"\n[dependency-groups]\ngpu = ["cupy-cuda11x==13.6.0"]\n'
    found = judged(tmp_path, f"{DEVEL}\nCOPY . /a\nWORKDIR /a\nRUN uv sync -n --group gpu", {"pyproject.toml": project})
    assert located(found) == [("DKF902", "pyproject.toml", 5)]


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("${V%%.*}", "12"),
        ("${V%.*}", "12.4"),
        ("${V#*.}", "4.1"),
        ("${V##*.}", "1"),
        ("${V//./}", "1241"),
        ("${V//\\./-}", "12-4-1"),
        ("${V/./_}", "12_4.1"),
        ("${V:0:2}", "${V:0:2}"),
        ("${V:-x}", "12.4.1"),
        ("${V%x}", "12.4.1"),
        ("${W%%.*}", "${W%%.*}"),
    ],
)
def test_parts_of_variables(reference: str, expected: str) -> None:
    assert substitute(reference, {"V": "12.4.1"}.get) == expected


def test_a_part_of_a_variable_in_a_name(tmp_path: Path) -> None:
    text = f"ARG CUDA=12.9.1\n{DEVEL}\nARG CUDA\nRUN pip install cupy-cuda${{CUDA%%.*}}x==14.2.0"
    assert codes(tmp_path, text) == []
    assert codes(tmp_path, text.replace("=12.9.1", "=11.8.0")) == ["DKF902", "DKF914"]
    assert codes(tmp_path, text.replace("ARG CUDA=12.9.1", "ARG CUDA")) == []


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("wget https://example.org/cuda_11.4.0_470.42.01_linux.run", []),
        ("chmod +x cuda_11.4.0_470.42.01_linux.run && rm NVIDIA-Linux-x86_64-535.104.05.run", []),
        ("sh NVIDIA-Linux-x86_64-535.104.05.run --extract-only", []),
        ("./cuda_11.4.0_470.42.01_linux.run --silent --driver", ["DKF901"]),
    ],
)
def test_downloading_an_installer_installs_nothing(tmp_path: Path, command: str, expected: list[str]) -> None:
    assert codes(tmp_path, f"FROM ubuntu:20.04\nRUN {command}") == expected
