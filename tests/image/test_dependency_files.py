"""The files that a Dockerfile installs from, found in its build context."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.image.dockerfiles import DEVEL, SLIM, WHEEL, judged, located

if TYPE_CHECKING:
    from pathlib import Path

ELEVEN = "cupy-cuda11x==13.6.0"
PROJECT = f"""[project]
name = "x"
version = "1"
dependencies = [
  "numpy",
]
[project.optional-dependencies]
gpu = ["{ELEVEN}"]
[dependency-groups]
dev = ["pytest"]
cuda = [{{ include-group = "inner" }}]
inner = ["{ELEVEN}"]
"""


@pytest.mark.parametrize(
    ("copy", "path"),
    [
        ("COPY requirements.txt .", "requirements.txt"),
        ("COPY requirements.txt /o/r.txt", "/o/r.txt"),
        ("COPY . /app", "/app/requirements.txt"),
        ("COPY *.txt /app/", "/app/requirements.txt"),
        ("ADD requirements.txt ./", "./requirements.txt"),
        ('COPY ["requirements.txt", "/x/"]', "/x/requirements.txt"),
        ("RUN mkdir /d\nWORKDIR /d\nCOPY . .\nWORKDIR /", "d/requirements.txt"),
    ],
)
def test_a_file_is_found_where_copy_puts_it(tmp_path: Path, copy: str, path: str) -> None:
    text = f"{DEVEL}\nWORKDIR /app\n{copy}\nRUN pip install --requirement {path}"
    found = judged(tmp_path, text, {"requirements.txt": f"{ELEVEN}\n"})
    assert located(found) == [("DKF902", "requirements.txt", 1)]
    assert found.files == (str(tmp_path / "Dockerfile"), str(tmp_path / "requirements.txt"))


def test_a_file_is_found_through_other_stages(tmp_path: Path) -> None:
    text = (
        f"{SLIM} AS files\nCOPY requirements /r\n{SLIM} AS more\nCOPY --from=files /r/ /all/\n"
        f"{DEVEL}\nCOPY --from=more /all/gpu.txt /tmp/\nRUN cd /tmp && pip install -r gpu.txt"
    )
    files = {"requirements/gpu.txt": f"{ELEVEN}\n"}
    assert located(judged(tmp_path, text, files)) == [("DKF902", "gpu.txt", 1)]


def test_a_mount_shows_a_file_to_its_own_step(tmp_path: Path) -> None:
    mount = "RUN --mount=type=bind,source=r.txt,target=/r.txt"
    files = {"r.txt": f"{ELEVEN}\n"}
    assert located(judged(tmp_path, f"{DEVEL}\n{mount} pip install -r /r.txt", files)) == [("DKF902", "r.txt", 1)]
    assert located(judged(tmp_path, f"{DEVEL}\n{mount} true\nRUN pip install -r /r.txt", files)) == []


def test_requirements_include_files_and_continue_lines(tmp_path: Path) -> None:
    text = f"{DEVEL}\nWORKDIR /app\nCOPY requirements/ ./reqs/\nRUN pip install -r reqs/all.txt"
    files = {
        "requirements/all.txt": "# all\n-r gpu.txt\nnumpy\n",
        "requirements/gpu.txt": "scipy\ncupy-cuda11x \\\n   ==13.6.0  # x\ncupy; sys_platform == 'win32'\n-r all.txt\n",
    }
    assert located(judged(tmp_path, text, files)) == [("DKF902", "gpu.txt", 2)]


def test_a_continuation_may_split_a_name_or_end_the_file(tmp_path: Path) -> None:
    listing = "num\\\npy\ncupy-cuda\\\n11x==13.6.0 \\"
    found = judged(tmp_path, f"{DEVEL}\nCOPY . /\nRUN pip install -r /r.txt", {"r.txt": listing})
    assert located(found) == [("DKF902", "r.txt", 3)]


def test_constraints_limit_versions_and_install_nothing(tmp_path: Path) -> None:
    files = {"r.txt": "-c c.txt\ncupy-cuda12x\n", "c.txt": f"{ELEVEN}\ncupy-cuda12x==14.2.0\n"}
    runtime = DEVEL.replace("devel", "runtime")
    found = judged(tmp_path, f"{runtime}\nCOPY . /\nRUN pip install -r /r.txt", files)
    assert [(each.code, each.title.split(" needs")[0]) for each in found.findings] == [("DKF903", "CuPy 14.2.0")]


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        ("pip install .", []),
        ("pip install '.[gpu]'", [8]),
        ("pip install -e .[gpu]", [8]),
        ("uv sync", []),
        ("uv sync --extra gpu", [8]),
        ("uv sync --all-extras --no-dev", [8]),
        ("uv sync --group cuda", [8]),
        ("uv sync --all-groups", [8]),
        ("uv sync --only-group inner", [8]),
        ("cd / && uv sync --project /app --extra=gpu", [8]),
        ("uv pip install --group cuda", [8]),
        ("uv pip install --system -r pyproject.toml --extra gpu", [8]),
        ("uv add cupy-cuda12x==13.6.0", []),
    ],
)
def test_a_project_is_installed_as_the_command_says(tmp_path: Path, command: str, lines: list[int]) -> None:
    text = f"{DEVEL}\nWORKDIR /app\nCOPY . .\nRUN {command}"
    found = located(judged(tmp_path, text, {"pyproject.toml": PROJECT}))
    assert found == [("DKF902", "pyproject.toml", line) for line in lines]


@pytest.mark.parametrize(
    "project",
    ['[project]\nname = "x"\ndynamic = ["dependencies"]\n', "[tool.poetry.dependencies]\ncupy-cuda11x = '13'\n", "x ="],
)
def test_a_project_without_readable_dependencies_is_unknown(tmp_path: Path, project: str) -> None:
    text = f"{SLIM}\nWORKDIR /app\nCOPY . .\nRUN pip install . cupy-cuda12x==14.2.0"
    (found,) = judged(tmp_path, text, {"pyproject.toml": project}).findings
    assert (found.code, found.severity.value) == ("DKF917", "note")


def test_the_version_of_a_locked_project_is_unknown(tmp_path: Path) -> None:
    project = '[project]\nname = "x"\ndependencies = ["cupy-cuda12x"]\n'
    text = f"{DEVEL.replace('devel', 'runtime')}\nWORKDIR /app\nCOPY . .\nRUN uv sync"
    assert located(judged(tmp_path, text, {"pyproject.toml": project})) == [("DKF903", "pyproject.toml", 3)]
    assert located(judged(tmp_path, text, {"uv.lock": ""})) == []


@pytest.mark.parametrize(
    ("listing", "codes"),
    [
        ("--index-url https://download.pytorch.org/whl/cu118\ntorch\n", []),
        ("--extra-index-url=https://download.pytorch.org/whl/cu126\ntorch\n", ["DKF904"]),
    ],
)
def test_an_index_in_a_file_applies_to_all_its_packages(tmp_path: Path, listing: str, codes: list[str]) -> None:
    text = f"{SLIM}\nCOPY . /\nRUN pip install -r /r.txt\nRUN pip install {ELEVEN}"
    assert [code for code, _, _ in located(judged(tmp_path, text, {"r.txt": listing}))] == codes


def test_an_environment_of_conda_is_read(tmp_path: Path) -> None:
    base = "FROM condaforge/miniforge3:25.3.0-3\nCOPY . /\n"
    listing = "dependencies:\n  - cupy=14.1.0\n  - pip:\n    - -r p.txt\n"
    files = {"environment.yml": listing, "p.txt": "cupy-cuda12x==14.1.0\n"}
    assert located(judged(tmp_path, f"{base}WORKDIR /\nRUN mamba env create", files)) == [("DKF905", "p.txt", 1)]


def test_nothing_outside_of_the_context_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("cupy\n")
    inside = tmp_path / "context"
    inside.mkdir()
    (inside / "link.txt").symlink_to("../secret.txt")
    text = f"{DEVEL}\nCOPY . /app\nRUN pip install -r /app/link.txt -r /app/../secret.txt -r /etc/passwd"
    found = judged(inside, text)
    assert located(found) == []
    assert not any("secret" in name or "passwd" in name for name in found.files)
    assert "outside of the build context" in found.findings[0].title


@pytest.mark.parametrize(
    "project",
    [
        "project = 3\ntool = []\n",
        '[project]\ndynamic = 3\ndependencies = "x"\noptional-dependencies = []\n',
        '[tool]\nuv = 1\npoetry = "x"\n[dependency-groups]\ndev = 3\n',
        "[tool.uv]\nsources = [1]\nindex = 3\n",
        "[[tool.uv.index]]\nname = 3\n[tool.uv.sources]\ntorch = 3\n",
        '[dependency-groups]\ndev = [{ include-group = "dev" }, { include-group = "x" }, 3]\n',
    ],
)
def test_a_malformed_project_does_not_crash(tmp_path: Path, project: str) -> None:
    text = f"{DEVEL}\nWORKDIR /app\nCOPY . .\nRUN uv sync --all-groups --all-extras"
    assert located(judged(tmp_path, text, {"pyproject.toml": project})) == []


def test_thousands_of_files_are_searched_soon(tmp_path: Path) -> None:
    copies = "".join(f"COPY r{number}.txt /app/{number}.txt\n" for number in range(1000))
    installs = "".join(f"RUN pip install -r /app/{number}.txt\n" for number in range(1000))
    begun = time.process_time()
    (found,) = judged(tmp_path, f"{DEVEL}\n{copies}{installs}").findings
    assert time.process_time() - begun < 20
    assert "and 997 more" in found.title


def test_each_target_notes_a_file_whose_packages_are_unknown(tmp_path: Path) -> None:
    stage = f"{SLIM} AS NAME\nCOPY . /x\nRUN pip install /x\n{WHEEL}\n"
    files = {"pyproject.toml": '[project]\nname = "a"\ndynamic = ["dependencies"]\n'}
    found = judged(tmp_path, stage.replace("NAME", "a") + stage.replace("NAME", "b"), files)
    assert located(found) == []
    assert [(each.code, each.line) for each in found.findings] == [("DKF917", 3), ("DKF917", 7)]
