"""The CuPy and the frameworks that a Dockerfile installs: old lines, wrong names, locks, indexes, Pythons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.model.finding import Severity
from tests.image.dockerfiles import DEVEL, SLIM, judged, located
from tests.image.test_dependency_files import ELEVEN

if TYPE_CHECKING:
    from pathlib import Path

FOCAL = "FROM nvidia/cuda:12.1.1-runtime-ubuntu20.04"
PROJECT = '[project]\nname = "x"\ndependencies = ["torch", "cupy-cuda12x"]\n'


@pytest.mark.parametrize(
    ("base", "requirements", "expected"),
    [
        (
            "python:3.14-slim",
            "cupy-cuda12x[ctk]==14.2.0; python_version >= '3.10'\ncupy-cuda12x==13.6.0; python_version < '3.10'",
            [],
        ),
        (
            "python:3.12-slim",
            "cupy-cuda12x[ctk]; platform_machine == 'x86_64'\ncupy; platform_machine == 'aarch64'",
            [],
        ),
        ("--platform=linux/arm64 python:3.12-slim", "cupy-cuda12x; platform_machine == 'aarch64'", ["DKF904"]),
        ("--platform=linux/arm64 python:3.12-slim", "cupy-cuda12x; platform_machine == 'x86_64'", []),
        ("python:3.12-slim", "cupy-cuda12x; sys_platform == 'linux' and python_version < '3.9'", []),
        ("python:3.12-slim", "cupy-cuda12x; sys_platform == 'linux' and python_version > '3.11'", ["DKF904"]),
        ("python:3.12-slim", "cupy-cuda12x; python_full_version >= '3.12.0'", ["DKF904"]),
        ("ubuntu", "cupy-cuda12x; python_version > '3' and platform_python_implementation == 'CPython'", ["DKF904"]),
        ("python:3.12-slim AS a\nFROM a", "cupy-cuda12x; python_version > '3.11'", ["DKF904"]),
    ],
)
def test_an_environment_marker_is_evaluated_for_the_image(
    tmp_path: Path, base: str, requirements: str, expected: list[str]
) -> None:
    text = f"FROM {base}\nCOPY r.txt /\nRUN pip install -r /r.txt"
    assert codes(tmp_path, text, {"r.txt": requirements}) == expected


@pytest.mark.parametrize(
    "marker",
    ["platform_machine == 'x86_64'", "python_full_version >= '3.12.5'", "platform_release > '5'"],
)
def test_a_marker_on_something_unknown_leaves_the_install_unknown(tmp_path: Path, marker: str) -> None:
    (found,) = judged(tmp_path, f'FROM python:3.12-slim\nRUN pip install "cupy-cuda12x; {marker}"').findings
    assert (found.code, found.severity) == ("DKF917", Severity.NOTE)


def test_a_marker_of_an_unrelated_package_is_no_note(tmp_path: Path) -> None:
    text = "FROM debian\nRUN pip install 'cupy-cuda12x[ctk]' \"numpy; python_version < '3.10'\""
    assert judged(tmp_path, text).findings == ()


def test_a_constraint_with_an_unknown_marker_pins_nothing(tmp_path: Path) -> None:
    files = {"c.txt": "cupy-cuda11x==13.6.0; python_version < '3.10'\n"}
    text = "FROM python:3.14-slim\nCOPY c.txt /\nRUN pip install -c /c.txt 'cupy-cuda11x'"
    assert codes(tmp_path, text, files) == ["DKF904"]


def codes(folder: Path, text: str, files: dict[str, str] | None = None) -> list[str]:
    return [code for code, _, _ in located(judged(folder, text, files))]


@pytest.mark.parametrize(
    ("base", "requirement", "expected"),
    [
        ("11.6.2-devel-ubuntu20.04", "cupy-cuda114==10.6.0", []),
        ("11.6.2-devel-ubuntu20.04", "cupy-cuda114", []),
        ("12.2.2-devel-ubuntu22.04", "cupy-cuda115==10.6.0", ["DKF902"]),
        ("10.1-devel-ubuntu18.04", "cupy-cuda100==7.8.0", ["DKF902", "DKF915"]),
        ("10.0-devel-ubuntu18.04", "cupy-cuda100==7.8.0", ["DKF915"]),
        ("11.8.0-devel-ubuntu22.04", "cupy-cuda92==7.2.0", ["DKF902"]),
        ("11.8.0-devel-ubuntu22.04", "cupy-cuda118", ["DKF920"]),
        ("12.1.1-devel-ubuntu22.04", "cupy-cuda121==12.3.0", ["DKF920"]),
        ("12.1.1-devel-ubuntu22.04", "cupy-cuda12==13.6.0", ["DKF920"]),
        ("12.1.1-devel-ubuntu22.04", "cupy-cuda99x==20.0", []),
    ],
)
def test_a_line_is_known_by_its_name(tmp_path: Path, base: str, requirement: str, expected: list[str]) -> None:
    assert codes(tmp_path, f"FROM nvidia/cuda:{base}\nRUN pip install {requirement}") == expected


def test_the_fix_of_an_invalid_line_is_the_line_of_its_major(tmp_path: Path) -> None:
    (found,) = judged(tmp_path, f"{DEVEL}\nRUN pip install cupy-cuda118").findings
    assert found.fix[0].text.startswith("Install cupy-cuda11x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{FOCAL}\nRUN apt-get install -y python3-pip\nRUN pip3 install cupy-cuda12x", []),
        (
            f"{FOCAL}\nRUN apt-get install -y python3.11\nRUN python3.11 -m pip install cupy-cuda12x",
            ["DKF903"],
        ),
        (f"{FOCAL.replace('20', '22')}\nRUN pip3 install cupy-cuda12x", ["DKF903"]),
        (f"{FOCAL}\nRUN pip3 install cupy-cuda12x==14.2.0", ["DKF903", "DKF914"]),
        (f"{FOCAL}\nRUN bash Miniforge3-Linux-x86_64.sh -b\nRUN pip install cupy-cuda12x==14.2.0", ["DKF903"]),
        (f"{FOCAL}\nRUN uv python install 3.12 && uv pip install cupy-cuda12x==14.2.0", ["DKF903"]),
        (
            f"{SLIM} AS b\nRUN pip install cupy-cuda12x==14.2.0\n{FOCAL}\nCOPY --from=b /usr/local /usr/local",
            ["DKF903"],
        ),
        (f"{DEVEL}\nRUN pip install cupy-cuda11x==14.0.0", ["DKF902", "DKF914"]),
        (f"{DEVEL}\nRUN pip install cupy-cuda12x==14.2", []),
        (f"{DEVEL}\nRUN pip install cupy-cuda12x==14.0.0b1 cupy-cuda12x==99.0", []),
        (f"{DEVEL}\nRUN pip install cupy-cuda12x==10.0.0", []),
    ],
)
def test_the_release_must_exist_for_line_and_python(tmp_path: Path, text: str, expected: list[str]) -> None:
    """Ubuntu 20.04's own Python is 3.8, for which CuPy ended with 12.3.0, which has headers of its own."""
    assert sorted(codes(tmp_path, text)) == expected


UV_INDEX = '[[tool.uv.index]]\nname = "cu126"\nurl = "https://download.pytorch.org/whl/cu126"\nexplicit = true\n'


@pytest.mark.parametrize(
    "more",
    [
        f'[tool.uv.sources]\ntorch = [{{ index = "cu126", marker = "sys_platform == \'linux\'" }}]\n{UV_INDEX}',
        f'[tool.uv.sources]\ntorch = {{ index = "cu126" }}\n{UV_INDEX}',
        '[tool.uv.sources]\ntorch = { git = "https://example.org/torch" }\n',
    ],
)
def test_the_index_of_a_project_decides_the_cuda(tmp_path: Path, more: str) -> None:
    project = PROJECT.replace('cupy-cuda12x"', 'cupy-cuda12x==13.6.0"') + more
    found = codes(tmp_path, f"{DEVEL}\nWORKDIR /app\nCOPY . .\nRUN uv sync", {"pyproject.toml": project})
    assert found == []


@pytest.mark.parametrize(
    "setting",
    [
        "ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cu126",
        "ARG PIP_INDEX_URL=https://download.pytorch.org/whl/nightly/cu128",
        "ENV UV_TORCH_BACKEND=cu126",
    ],
)
def test_a_variable_may_name_the_index(tmp_path: Path, setting: str) -> None:
    text = f"{SLIM}\n{setting}\nRUN uv pip install --system torch cupy-cuda12x==13.6.0"
    assert codes(tmp_path, text) == []
    assert codes(tmp_path, text.replace("cu12", "cu13")) == ["DKF904"]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("/opt/a/bin/pip install", "/opt/b/bin/pip install", []),
        ("conda run -n a pip install", "conda run -n b pip install", []),
        ("uv pip install -p /a", "uv pip install --python /b", []),
        ("/opt/a/bin/pip install", "/opt/a/bin/python -m pip install", ["DKF905"]),
        ("/opt/a/bin/pip install", "pip install", []),
        ("/usr/bin/pip3 install", "pip install", ["DKF905"]),
        ("pip install --user", "pip install", ["DKF905"]),
        ("pip install --target /a", "pip install --target=/b", []),
        ("pip install --prefix /a", "pip install", []),
        ("pip install -t /a", "pip install --target /a", ["DKF905"]),
        (". /a/bin/activate && pip install", ". /b/bin/activate && pip install", []),
        (". /a/bin/activate && pip install", "/a/bin/pip install", ["DKF905"]),
        (". /a/bin/activate && deactivate && pip install", "pip install", ["DKF905"]),
        (". /a/bin/activate && echo deactivate && pip install", "pip install", []),
        (". /etc/profile && pip install", "pip install", ["DKF905"]),
        ("conda activate a && pip install", "source /opt/conda/bin/activate b && pip install", []),
        ("conda activate a && pip install", "conda run -n a pip install", ["DKF905"]),
        ("VIRTUAL_ENV=/a uv pip install", "VIRTUAL_ENV=/b uv pip install", []),
        ("/opt/conda/bin/conda run -n a pip install", "/opt/conda/bin/conda run -n b pip install", []),
    ],
)
def test_two_environments_may_have_a_line_each(tmp_path: Path, one: str, other: str, expected: list[str]) -> None:
    text = f"{DEVEL}\nRUN {one} cupy-cuda12x==14.2.0\nRUN {other} 'cupy-cuda13x[ctk]==14.2.0'"
    assert codes(tmp_path, text) == expected


def test_the_variable_of_a_virtual_environment_names_it(tmp_path: Path) -> None:
    install = "RUN uv pip install 'cupy-cuda12x[ctk]==14.2.0'"
    text = f"{SLIM}\nENV VIRTUAL_ENV=/a\n{install}\nENV VIRTUAL_ENV=/b\n{install.replace('12x', '13x')}"
    assert codes(tmp_path, text) == []
    assert codes(tmp_path, text.replace("=/b", "=/a")) == ["DKF905"]


CONDA = "FROM continuumio/miniconda3:24.1.2-0\nRUN conda create -n a cupy cuda-version=12.9"


@pytest.mark.parametrize(
    ("before", "same"),
    [
        ('SHELL ["conda", "run", "--no-capture-output", "-n", "{}", "bash", "-c"]', "a"),
        ('SHELL ["conda", "run", "-p", "{}", "bash", "-c"]', "/opt/conda/envs/a"),
        ("ENV PATH=/opt/conda/envs/{}/bin:$PATH", "a"),
        ("ENV PATH=/usr/local/cuda/bin:/opt/conda/envs/{}/bin:/opt/conda/bin", "a"),
        ("ENV CONDA_DEFAULT_ENV={}", "a"),
    ],
)
def test_the_shell_and_the_search_path_name_the_environment(tmp_path: Path, before: str, same: str) -> None:
    install = "RUN pip install 'cupy-cuda12x[ctk]==14.2.0'"
    for name, expected in ((same, ["DKF905"]), (f"{same}b", [])):
        assert codes(tmp_path, f"{CONDA}\n{before.format(name)}\n{install}") == expected


def test_a_program_in_the_folder_of_a_conda_environment_installs_into_it(tmp_path: Path) -> None:
    for name, expected in (("a", ["DKF905"]), ("b", [])):
        text = f"{CONDA}\nRUN /opt/conda/envs/{name}/bin/pip install 'cupy-cuda12x[ctk]==14.2.0'"
        assert codes(tmp_path, text) == expected


def test_a_command_in_a_pipe_is_a_warning(tmp_path: Path) -> None:
    piped = judged(tmp_path, f"{DEVEL}\nRUN nvidia-smi -L | awk '{{print $1}}' > /gpus").findings
    assert [(each.code, each.severity) for each in piped] == [("DKF912", Severity.WARNING)]
    for group in ("(ls; nvidia-smi) 2>&1 | tee /gpus", "{ nvidia-smi; ls; } | tee /gpus"):
        grouped = judged(tmp_path, f"{DEVEL}\nRUN set -e; {group}").findings
        assert [(each.code, each.severity) for each in grouped] == [("DKF912", Severity.WARNING)]
    last = judged(tmp_path, f"{DEVEL}\nRUN echo x | nvidia-smi").findings
    assert [(each.code, each.severity) for each in last] == [("DKF912", Severity.ERROR)]
    options = f'{DEVEL}\nSHELL ["bash", "-o", "pipefail", "-c"]\nRUN nvidia-smi -L | tee /gpus'
    assert [(each.code, each.severity) for each in judged(tmp_path, options).findings] == [("DKF912", Severity.ERROR)]


@pytest.mark.parametrize(
    ("packages", "expected"),
    [
        ("pytorch pytorch-cuda=11.8 -c pytorch -c nvidia", []),
        ("pytorch-cuda=12.1 -c pytorch -c nvidia", ["DKF902"]),
        ("cudatoolkit=11.8", []),
        ("cuda-python pytorch", ["DKF904"]),
    ],
)
def test_conda_packages_may_have_cuda(tmp_path: Path, packages: str, expected: list[str]) -> None:
    text = f"FROM condaforge/miniforge3:25.3.0-3\nRUN conda install -y {packages}\nRUN pip install {ELEVEN}"
    assert codes(tmp_path, text) == expected


@pytest.mark.parametrize("number", ["9" * 5000, "\N{SUPERSCRIPT TWO}"])
@pytest.mark.parametrize(
    "text",
    [
        "RUN pip install nvidia-cuda-runtime=={0}.1 cupy-cuda12x cupy-cuda{0}x torch==2.1+cu{0} torch=={0}",
        "RUN apt-get install -y cuda-libraries-{0}-1 cuda-{0}-1 cuda-runtime-{0}-1",
        "RUN conda install cudatoolkit={0}.1 cupy={0} cuda-version={0}",
        "COPY --from={0} /x /y",
        "ENV CUDA_PATH=/usr/local/cuda-{0}.1 NVIDIA_REQUIRE_CUDA=driver>={0},driver<{0}",
    ],
)
def test_an_unreadable_number_does_not_crash(tmp_path: Path, number: str, text: str) -> None:
    found = judged(tmp_path, f"{DEVEL}\n{text.format(number)}\nRUN pip install cupy-cuda11x")
    assert ("DKF902", "Dockerfile") in [(each.code, (each.file or "").rsplit("/", 1)[-1]) for each in found.findings]
