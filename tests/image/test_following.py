"""The files that a Dockerfile installs from: where they come from, and which parts of them are meant."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from gpuenv.image.dockerfile.projects import of_table
from gpuenv.model.finding import Severity
from tests.image.dockerfiles import DEVEL, SLIM, judged, told

if TYPE_CHECKING:
    from pathlib import Path

ELEVEN = "cupy-cuda11x==13.6.0"  # wrong in every image here
LOCK = {"uv.lock": "", "poetry.lock": "", "Pipfile.lock": "{}"}
GROUPS = (
    f'[project]\nname = "x"\ndependencies = ["numpy"]\n[dependency-groups]\ngpu = ["{ELEVEN}"]\n'
    'dev = [{ include-group = "gpu" }]\n'
)
POETRY = (
    '[tool.poetry.dependencies]\npython = "~3.11"\n[tool.poetry.group.gpu.dependencies]\n'
    'cupy-cuda11x = { version = "~13.6", extras = ["all"] }\n'
    '[tool.poetry.group.extra]\noptional = true\n[tool.poetry.group.extra.dependencies]\ncupy = "13.6.0"\n'
)


@pytest.mark.parametrize(
    "text",
    [
        f"ARG LIST=r.txt\n{DEVEL}\nARG LIST\nCOPY $LIST /tmp/all.txt\nRUN pip install -r /tmp/all.txt",
        f"{DEVEL}\nENV HERE=/srv\nCOPY r.txt ${{HERE}}/\nRUN pip install -r $HERE/r.txt",
        f'{DEVEL}\nCOPY "r.txt" "/srv/r.txt"\nRUN pip install -r /srv/r.txt',
        f"{DEVEL}\nCOPY . /srv\nRUN cd /srv && pip install -r r.txt",
        f"{DEVEL}\nCOPY . /srv/app\nWORKDIR /srv\nRUN cd app; true && pip install -r r.txt",
        f"{DEVEL}\nWORKDIR /srv\nCOPY . .\nRUN (cd /tmp && true) && pip install -r r.txt",
        f"{DEVEL}\nWORKDIR /srv\nCOPY . .\nRUN bash -c 'cd /tmp' && pip install -r r.txt",
        f"{DEVEL} AS base\nCOPY r.txt /\nFROM base\nRUN pip install -r /r.txt",
        f"{SLIM} AS files\nCOPY . /all\n{DEVEL}\nCOPY --from=files /all/r.txt /tmp/\nRUN pip install -r /tmp/r.txt",
        f"{SLIM} AS files\nCOPY . /all\n{DEVEL}\nCOPY --from=0 /all /tmp\nRUN pip install -r /tmp/r.txt",
        f"{DEVEL}\nRUN --mount=type=cache,target=/c --mount=type=bind,source=r.txt,target=r.txt pip install -r r.txt",
        f"{DEVEL}\nCOPY r.txt /app/\nCOPY other /app\nRUN pip install -r /app/r.txt",
        f"{DEVEL}\nCOPY r.txt //app/\nRUN pip install -r //app//r.txt",
    ],
)
def test_a_list_is_found_where_it_stands(tmp_path: Path, text: str) -> None:
    files = {"r.txt": f"{ELEVEN}\n", "other/x": ""}
    assert told(judged(tmp_path, text, files)) == [("DKF902", "r.txt", 1)]


@pytest.mark.parametrize(
    "command",
    [
        "git clone https://example.org/x && cd x && pip install .",
        "cd $SOMEWHERE && pip install .",
        "cd && pip install .",
        "pushd /elsewhere && pip install . && popd",
    ],
)
def test_another_folder_is_not_the_context(tmp_path: Path, command: str) -> None:
    project = f'[project]\nname = "x"\ndependencies = ["{ELEVEN}"]\n'
    found = judged(tmp_path, f"{DEVEL}\nWORKDIR /app\nCOPY . .\nRUN {command}", {"pyproject.toml": project})
    assert told(found) == []


def test_a_list_that_is_not_there_is_said_in_its_line(tmp_path: Path) -> None:
    found = judged(tmp_path, f"{DEVEL}\nCOPY . .\nRUN pip install numpy \\\n -r gone.txt").findings
    assert [(each.code, each.severity, each.line) for each in found] == [("DKF917", Severity.NOTE, 4)]
    assert "gone.txt was not looked at" in found[0].title
    assert judged(tmp_path, f"{DEVEL}\nRUN pip install -r https://example.org/r.txt\nRUN pip install .").findings == ()


@pytest.mark.parametrize(
    "text",
    [
        "COPY r.in .\nRUN pip-compile r.in\nRUN pip install -r r.txt",
        "COPY r.in /a/\nRUN cd /a && uv pip compile r.in -o /b/all.txt && uv pip install --system -r /b/all.txt",
        "COPY r.in .\nRUN uv pip compile r.in > all.txt\nRUN pip install -r all.txt",
    ],
)
def test_what_is_compiled_is_what_it_is_compiled_from(tmp_path: Path, text: str) -> None:
    found = told(judged(tmp_path, f"{DEVEL}\nWORKDIR /w\n{text}", {"r.in": f"{ELEVEN}\n"}))
    assert found == [("DKF902", "r.in", 1)]


def test_what_is_exported_in_another_stage_is_the_project(tmp_path: Path) -> None:
    text = (
        f"{SLIM} AS list\nWORKDIR /tmp\nCOPY pyproject.toml poetry.lock ./\n"
        "RUN poetry export -f requirements.txt --output requirements.txt --without-hashes\n"
        f"{DEVEL}\nWORKDIR /code\nCOPY --from=list /tmp/requirements.txt /code/requirements.txt\n"
        "RUN pip install -r /code/requirements.txt"
    )
    found = judged(tmp_path, text, {**LOCK, "pyproject.toml": POETRY})
    assert told(found) == [("DKF902", "pyproject.toml", 4)]


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        ("uv sync", [5]),
        ("uv sync --no-dev", []),
        ("uv sync --no-dev --group gpu", [5]),
        ("uv sync --no-default-groups", []),
        ("uv sync --all-groups", [5]),
        ("uv sync --only-group gpu", [5]),
        ("uv sync --no-group dev", []),
        ("uv --directory /app sync", [5]),
        ("cd / && uv sync --project /app", [5]),
        ("pip install --group gpu", [5]),
        ("uv pip install --group pyproject.toml:gpu", [5]),
        ("uv pip install --system -r pyproject.toml", []),
        ("uv pip install --system -r pyproject.toml --group gpu", [5]),
    ],
)
def test_groups_are_taken_as_the_command_says(tmp_path: Path, command: str, lines: list[int]) -> None:
    text = f"{DEVEL}\nWORKDIR /app\nCOPY . .\nRUN {command}"
    found = told(judged(tmp_path, text, {**LOCK, "pyproject.toml": GROUPS}))
    assert found == [("DKF902", "pyproject.toml", line) for line in lines]


@pytest.mark.parametrize(
    ("command", "codes"),
    [
        ("poetry install --no-root", ["DKF902"]),
        ("poetry install --without gpu", []),
        ("poetry install --without=gpu,dev", []),
        ("poetry install --only main", []),
        ("poetry install --only main,gpu", ["DKF902"]),
        ("poetry install --with extra", ["DKF902", "DKF905", "DKF906"]),
    ],
)
def test_groups_of_poetry(tmp_path: Path, command: str, codes: list[str]) -> None:
    text = f"{DEVEL}\nWORKDIR /app\nCOPY pyproject.toml poetry.lock ./\nRUN {command}"
    found = told(judged(tmp_path, text, {**LOCK, "pyproject.toml": POETRY}))
    assert sorted(code for code, _, _ in found) == codes


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("^13.2", "x>=13.2,<14"),
        ("^0.2.3", "x>=0.2.3,<0.3"),
        ("^0.0.3", "x>=0.0.3,<0.0.4"),
        ("~13.2", "x>=13.2,<13.3"),
        ("~13.2.1", "x>=13.2.1,<13.3"),
        ("~13", "x>=13,<14"),
        ("13.2.0", "x==13.2.0"),
        ("==13.2.0", "x==13.2.0"),
        ("~=13.2", "x~=13.2"),
        (">=13, <14", "x>=13,<14"),
        ("13.*", "x==13.*"),
        ("*", "x"),
        ({"version": "^13", "extras": ["ctk"]}, "x[ctk]>=13,<14"),
        ({"git": "https://example.org/x"}, "x @ git+https://example.org/x"),
        ({"version": "*", "markers": "sys_platform == 'linux'"}, "x; sys_platform == 'linux'"),
        ({"version": "*", "platform": "win32"}, "x; sys_platform == 'win32'"),
    ],
)
def test_versions_in_tables(value: object, expected: str) -> None:
    assert of_table("x", value) == expected


@pytest.mark.parametrize(
    ("command", "codes"),
    [
        ("pipenv install --system --deploy", ["DKF902"]),
        ("pipenv sync", ["DKF902"]),
        ("pipenv install --dev", ["DKF902", "DKF905", "DKF906"]),
        ("pipenv install cupy", ["DKF906"]),
    ],
)
def test_a_pipfile_is_followed(tmp_path: Path, command: str, codes: list[str]) -> None:
    listing = '[packages]\ncupy-cuda11x = "==13.6.0"\n[dev-packages]\ncupy = "*"\n'
    text = f"{DEVEL}\nWORKDIR /app\nCOPY Pipfile Pipfile.lock ./\nRUN {command}"
    found = told(judged(tmp_path, text, {**LOCK, "Pipfile": listing}))
    assert sorted(code for code, _, _ in found) == codes


def test_constraints_in_a_list_install_nothing(tmp_path: Path) -> None:
    files = {"r.txt": "-c c.txt\ncupy-cuda12x\n", "c.txt": f"{ELEVEN}\ncupy-cuda12x==14.2.0\n"}
    assert told(judged(tmp_path, f"{DEVEL}\nCOPY . /\nRUN pip install -r /r.txt", files)) == []


@pytest.mark.parametrize(
    ("listing", "codes"),
    [
        ("--index-url https://download.pytorch.org/whl/cu118\ntorch\n", []),
        ("--extra-index-url=https://download.pytorch.org/whl/cu126\ntorch\n", ["DKF902"]),
        ("torch\n", ["DKF902"]),
    ],
)
def test_an_index_in_a_list_is_for_all_in_it(tmp_path: Path, listing: str, codes: list[str]) -> None:
    text = f"FROM nvidia/cuda:11.8.0-devel-ubuntu22.04\nCOPY . /\nRUN pip install -r /r.txt {ELEVEN}"
    assert [code for code, _, _ in told(judged(tmp_path, text, {"r.txt": listing}))] == codes


def test_lists_of_conda_are_followed(tmp_path: Path) -> None:
    listing = "# all\ncupy=14.1.0\ncuda-version=12.9\n"
    text = "FROM condaforge/miniforge3:25.3.0-3\nCOPY . /\nRUN conda install -y --file /p.txt\nRUN pip install cupy"
    assert told(judged(tmp_path, text, {"p.txt": listing})) == [
        ("DKF905", "Dockerfile", 4),
        ("DKF906", "Dockerfile", 4),
    ]
    text = "FROM condaforge/miniforge3:25.3.0-3\nCOPY . /\nWORKDIR /\nRUN mamba env create"
    listing = "dependencies:\n  - cupy=14.1.0\n  - pip:\n    - -r p.txt\n"
    files = {"environment.yml": listing, "p.txt": "cupy-cuda12x==14.1.0\n"}
    assert told(judged(tmp_path, text, files)) == [("DKF905", "p.txt", 1)]


def test_a_dockerfile_that_copies_nothing_is_read_with_its_folder(tmp_path: Path) -> None:
    text = f"{DEVEL}\nRUN pip install -r r.txt\nWORKDIR /later\nRUN cd /x && pip install -r r.txt"
    assert told(judged(tmp_path, text, {"r.txt": f"{ELEVEN}\n"})) == [("DKF902", "r.txt", 1)]


@pytest.mark.parametrize(
    "project",
    [
        "project = 3\ntool = []\n",
        '[project]\ndynamic = 3\ndependencies = "x"\noptional-dependencies = []\n',
        '[tool]\nuv = 1\npoetry = "x"\n[dependency-groups]\ndev = 3\n',
        "[tool.uv]\nsources = [1]\nindex = 3\ndefault-groups = 4\ndev-dependencies = {}\n",
        "[tool.poetry]\ngroup = [1]\nsource = 3\ndependencies = { x = 3, y = [1, {}], z = { version = 1 } }\n",
        "[[tool.uv.index]]\nname = 3\n[tool.uv.sources]\ntorch = 3\n",
        '[dependency-groups]\ndev = [{ include-group = "dev" }, { include-group = "x" }, 3]\n',
    ],
)
def test_a_table_that_is_none_ends_nothing(tmp_path: Path, project: str) -> None:
    text = f"{DEVEL}\nWORKDIR /app\nCOPY . .\nRUN uv sync --all-groups --all-extras && pixi install && pipenv install"
    files = {"pyproject.toml": project, "Pipfile": "packages = 3\n", "setup.py": "x = '\\d'\n", "uv.lock": "\0"}
    assert told(judged(tmp_path, text, files)) == []


def test_thousands_of_lists_are_followed_soon(tmp_path: Path) -> None:
    copies = "".join(f"COPY r{number}.txt /app/{number}.txt\n" for number in range(1500))
    installs = "".join(f"RUN pip install -r /app/{number}.txt\n" for number in range(1500))
    begun = time.process_time()
    found = judged(tmp_path, f"{DEVEL}\n{copies}{installs}", {"r1499.txt": f"{ELEVEN}\n"})
    assert time.process_time() - begun < 8  # it is half a second; looking at every copy for each list, half a minute
    assert told(found) == [("DKF902", "r1499.txt", 1)]


def test_a_mount_is_gone_after_its_step(tmp_path: Path) -> None:
    mount = "RUN --mount=type=bind,source=r.txt,target=/r.txt true"
    files = {"r.txt": f"{ELEVEN}\n"}
    assert told(judged(tmp_path, f"{DEVEL} AS base\n{mount}\nFROM base\nRUN pip install -r /r.txt", files)) == []
    assert told(judged(tmp_path, f"{DEVEL}\n{mount} && pip install -r /r.txt", files)) == [("DKF902", "r.txt", 1)]


@pytest.mark.parametrize("copy", ["COPY r{}.txt", "COPY --from=made r{}.txt", "COPY folder{}"])
def test_eight_times_the_copies_into_a_folder_take_eight_times_as_long(tmp_path: Path, copy: str) -> None:
    """Looking at every copy for each list, they take sixty-four times as long."""
    for number in range(4000 if "folder" in copy else 0):
        (tmp_path / f"folder{number}").mkdir()

    def seconds(count: int) -> float:
        copies = "".join(f"{copy.format(number)} /app/\n" for number in range(count))
        lists = " ".join(f"-r /app/r{number}.txt" for number in range(count))
        begun = time.process_time()
        judged(tmp_path, f"{SLIM} AS made\nRUN make\n{SLIM}\n{copies}RUN pip install {lists}", {"r0.txt": "numpy\n"})
        return time.process_time() - begun

    seconds(10)
    assert min(seconds(4000) for _ in range(2)) / min(seconds(500) for _ in range(2)) < 22
