"""Lists of distributions: of pip, uv, conda, mamba and micromamba, complete, filtered and exported."""

from __future__ import annotations

import pytest

from gpuenv.paste.reader import read_paste
from tests.paste.pasted_facts import snapshot_of, wrong

_CONDA = "cupy                 13.6.0      py312h1acd1a8_1       conda-forge\n"
_PYTHON = "python               3.12.11     h9e4cc4f_0_cpython    conda-forge\n"


@pytest.mark.parametrize(
    ("text", "cupy"),
    [
        pytest.param("$ pip list | grep cupy\ncupy-cuda12x              13.3.0\n", "cupy-cuda12x 13.3.0", id="searched"),
        pytest.param("cupy-cuda90 (5.0.0)\n", "cupy-cuda90 5.0.0", id="pip before 18"),
        pytest.param("Package  Version  Editable project location\n-------- -------- ---\ncupy-cuda13x 14.2.0\n", "cupy-cuda13x 14.2.0", id="uv"),
        pytest.param("cupy-cuda12x @ file:///w/cupy_cuda12x-13.2.0-cp311-cp311-linux_x86_64.whl#sha256=0\n", "cupy-cuda12x 13.2.0", id="a file"),
        pytest.param("cupy @ file:///home/conda/cupy-split_1718900000/work\n", "", id="a file without a release"),
        pytest.param("cupy-cuda12x==12.1.0\n\u251c\u2500\u2500 fastrlock [required: >=0.5, installed: 0.8.1]\n", "cupy-cuda12x 12.1.0", id="pipdeptree"),
        pytest.param(_CONDA, "cupy 13.6.0", id="conda list, searched"),
        pytest.param("  Name   Version   Build   Channel\n\u2500\u2500\u2500\u2500\u2500\n  " + _CONDA, "cupy 13.6.0", id="micromamba"),
        pytest.param("cupy=13.2.0=py311h12c7af3_0\n", "cupy 13.2.0", id="exported"),
        pytest.param("  - cupy=13.2.0=py311h12c7af3_0\n", "cupy 13.2.0", id="environment.yml of an export"),
        pytest.param("cupy-cuda12x>=12\ncupy-cuda11x~=11.0\n", "", id="requirements"),
        pytest.param("  + cupy     12.2.0  py311h1c9d5a5_3      conda-forge     Cached\n", "", id="a plan of mamba"),
        pytest.param("cupy 13 is broken for me\n", "", id="prose"),
    ],
)  # fmt: skip
def test_cupy_is_read_from_every_kind_of_list(text: str, cupy: str) -> None:
    assert wrong(text, {"cupy": cupy}) == {}


def test_conda_and_pip_packages_are_distinguished() -> None:
    old = "# packages in environment at C:/x:\n#\ntorch 1.4.0 <pip>\ncudatoolkit 9.0 py36_0 anaconda\n"
    assert set(snapshot_of(old).target.conda_packages) == {"cudatoolkit"}
    assert wrong(_CONDA + _PYTHON, {"target.kind": "conda", "target.python": "3.12.11"}) == {}


@pytest.mark.parametrize(
    ("rows", "absent"),
    [
        ("numpy 2.1.0\npip 24.0\n", True),
        ("absl-py 0.15.0\nboto3 1.0\n", False),
        ("absl-py 0.15.0\ncupy 13.0.0\n", False),
    ],
)
def test_only_a_list_beyond_its_name_shows_that_cupy_is_not_installed(rows: str, absent: bool) -> None:  # noqa: FBT001 - a case
    snapshot = snapshot_of(f"Package Version\n------- -------\n{rows}")
    assert ("target.cupy" in snapshot.assumed) is absent


def test_packages_unrelated_to_gpus_are_omitted_as_in_the_probe() -> None:
    text = "Package Version\n------- -------\nabsl-py 0.15.0\nnumpy 2.1.0\nrich 13.0\n"
    assert snapshot_of(text).target.packages == {"numpy": "2.1.0"}


@pytest.mark.parametrize(
    "text",
    [
        "nvidia-open-dkms 580.95.05-1\nnvidia-utils 580.95.05-1\nnumpy 2.3.4-1\n",
        "ii  libnvidia-compute-535:amd64   535.113.01-0ubuntu0.22.04.1  amd64  NVIDIA libcompute package\n",
        "nvidia-driver-latest-dkms-cuda-libs-465.19.01-1.el7.x86_64\n",
        "Package   Version  Build            Size       Kind   Source\ncupy      13.6.0   py312h1acd1a8_1  350.1 KiB  conda  x\n",
    ],
    ids=["pacman", "dpkg", "rpm", "pixi"],
)
def test_other_lists_are_not_taken_for_lists_of_python_packages(text: str) -> None:
    assert read_paste(text).outputs == ()
    assert snapshot_of(text).target.packages == {}


@pytest.mark.parametrize(
    ("line", "python"),
    [
        ("Using Python 3.12.3 environment at: /home/x/.venv", "3.12.3"),
        ("Python 3.7.6 (default, Jan  8 2020, 19:59:22)", "3.7.6"),
        ("Python 3.10.17 | packaged by conda-forge | (main, Apr 10 2025, 22:06:35)", "3.10.17"),
        ("Python 3.14.0 free-threading build (main, Oct  7 2025, 15:29:32) [GCC 13.3.0] on linux", "3.14.0t"),
        ("python version : 3.13.11.final.0", None),  # conda's own
        ("Python 3.10.6, Ubuntu 22.04", None),
    ],
)
def test_the_python_of_an_environment_is_read(line: str, python: str | None) -> None:
    assert wrong(line, {"target.python": python}) == {}


def test_conda_info_describes_the_machine() -> None:
    text = (
        "       virtual packages : __archspec=1=skylake\n                          __cuda=13.0=0\n"
        "                          __glibc=2.35=0\n               platform : linux-64\n"
    )
    assert (
        wrong(text, {"driver.cuda": "13.0", "host.libc": "glibc-2.35", "host.os": "linux", "host.arch": "x86_64"}) == {}
    )
    assert wrong("__cuda=0=0\nplatform : win-64\n", {"driver.cuda": None, "host.os": "windows"}) == {}
