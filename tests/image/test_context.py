"""What is read of the build context, and what is not."""

from __future__ import annotations

import time
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from gpuenv.image.dockerfile.build_context import context_of
from gpuenv.image.dockerfile.dockerignore import is_ignored, patterns_of
from gpuenv.model.finding import Severity
from tests.image.dockerfiles import SLIM, judged, told

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_of_the_context_is_named_once(tmp_path: Path) -> None:
    text = (
        f"{SLIM} AS build\nWORKDIR /app\nCOPY pyproject.toml .\nRUN uv sync --no-install-project\nCOPY . .\nRUN uv sync"
    )
    files = {"pyproject.toml": '[project]\nname = "x"\ndependencies = ["cupy-cuda12x[ctk]==14.2.0"]\n'}
    assert judged(tmp_path, text, files).files == (str(tmp_path / "Dockerfile"), str(tmp_path / "pyproject.toml"))


def test_a_file_of_requirements_is_followed(tmp_path: Path) -> None:
    text = f"{SLIM}\nWORKDIR /app\nCOPY requirements/ ./reqs/\nRUN pip install -r reqs/all.txt"
    files = {
        "requirements/all.txt": "# all\n-r gpu.txt\nnumpy\n",
        "requirements/gpu.txt": "scipy\ncupy-cuda12x \\\n   ==14.2.0  # x\ncupy; sys_platform == 'win32'\n",
    }
    assert told(judged(tmp_path, text, files)) == [("DKF904", "gpu.txt", 2)]


@pytest.mark.parametrize(
    ("copy", "path"),
    [
        ("COPY requirements.txt .", "requirements.txt"),
        ("COPY requirements.txt /o/r.txt", "/o/r.txt"),
        ("COPY . /app", "/app/requirements.txt"),
        ("COPY *.txt /app/", "/app/requirements.txt"),
        ("ADD requirements.txt ./", "./requirements.txt"),
        ('COPY ["requirements.txt", "/x/"]', "/x/requirements.txt"),
    ],
)
def test_a_file_is_found_where_copy_puts_it(tmp_path: Path, copy: str, path: str) -> None:
    text = f"{SLIM}\nWORKDIR /app\n{copy}\nRUN pip install --requirement {path}"
    found = judged(tmp_path, text, {"requirements.txt": "cupy\n"})
    assert told(found) == [("DKF906", "requirements.txt", 1)]
    assert any(name.endswith("requirements.txt") for name in found.files)


def test_a_bind_mount_shows_a_file(tmp_path: Path) -> None:
    mount = "--mount=type=bind,source=requirements.txt,target=/r.txt"
    found = judged(tmp_path, f"{SLIM}\nRUN {mount} pip install -r /r.txt", {"requirements.txt": "cupy\n"})
    assert told(found) == [("DKF906", "requirements.txt", 1)]


def test_nothing_outside_of_the_context_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("cupy\n")
    inside = tmp_path / "context"
    inside.mkdir()
    (inside / "link.txt").symlink_to("../secret.txt")
    text = f"{SLIM}\nCOPY . /app\nRUN pip install -r /app/link.txt -r /app/../secret.txt -r /etc/passwd"
    found = judged(inside, text)
    assert told(found) == []
    assert not any("secret" in name or "passwd" in name for name in found.files)
    outside = [each for each in found.findings if "lies outside of the build context" in each.title]
    assert {(each.code, each.severity, each.line) for each in outside} == {("DKF917", Severity.NOTE, 1)}
    twice = judged(inside, f"{text}\n{text}")
    assert {each.title for each in twice.findings} == {each.title for each in found.findings}, "two targets, one file"


def test_a_project_and_an_environment_are_followed(tmp_path: Path) -> None:
    project = '[project]\nname = "x"\nversion = "1"\ndependencies = [\n  "numpy",\n  "cupy-cuda12x[ctk]>=14",\n]\n'
    text = f"{SLIM}\nCOPY . /src\nWORKDIR /src\nRUN pip install ."
    assert told(judged(tmp_path, text, {"pyproject.toml": project})) == [("DKF907", "pyproject.toml", 6)]
    assert told(judged(tmp_path, text, {"uv.lock": ""})) == []
    conda = "name: x\ndependencies:\n  - cupy=14.2.0\n  - pip:\n      - cupy-cuda12x[ctk]==14.2.0\n"
    text = (
        "FROM condaforge/miniforge3:24.11.3-0\nCOPY environment.yml /tmp/\nRUN conda env update -f /tmp/environment.yml"
    )
    found = told(judged(tmp_path, text, {"environment.yml": conda}))
    assert found == [("DKF905", "environment.yml", 5)]


def test_constraints_pin(tmp_path: Path) -> None:
    text = f"{SLIM}\nCOPY c.txt /c.txt\nRUN pip install -c /c.txt 'cupy-cuda12x[ctk]'"
    assert told(judged(tmp_path, text, {"c.txt": "cupy-cuda12x==14.2.0\n"})) == []


@pytest.mark.parametrize(
    ("lines", "path", "out"),
    [
        ("requirements.txt", "requirements.txt", True),
        ("requirements.txt", "sub/requirements.txt", False),
        ("/requirements.txt", "requirements.txt", True),
        ("./requirements.txt/", "requirements.txt", True),
        ("**/requirements.txt", "sub/deep/requirements.txt", True),
        ("**/requirements.txt", "requirements.txt", True),
        ("*.txt", "requirements.txt", True),
        ("*.txt", "sub/requirements.txt", False),
        ("*/*.txt", "sub/requirements.txt", True),
        ("sub", "sub/requirements.txt", True),
        ("sub/**", "sub/requirements.txt", True),
        ("*", "requirements.txt", True),
        ("*\n!requirements.txt", "requirements.txt", False),
        ("*\n!sub", "sub/requirements.txt", False),
        ("!requirements.txt\n*", "requirements.txt", True),
        ("requirements.tx?", "requirements.txt", True),
        ("r[a-f]quirements.txt", "requirements.txt", True),
        ("r[^e]quirements.txt", "requirements.txt", False),
        ("r[!e]quirements.txt", "requirements.txt", True),  # a class of "!" and "e" to Go
        ("r[!a]quirements.txt", "requirements.txt", False),
        ("\\requirements.txt", "requirements.txt", True),
        ("\\!requirements.txt", "!requirements.txt", True),
        ("\\^requirements.txt", "^requirements.txt", True),
        ("\\[r\\]equirements.txt", "[r]equirements.txt", True),
        ("\\*", "requirements.txt", False),
        ("# requirements.txt", "requirements.txt", False),
        ("  requirements.txt  \r", "requirements.txt", True),
        ("[", "requirements.txt", False),
        ("", "requirements.txt", False),
        (".", "requirements.txt", False),
        ("!", "requirements.txt", False),
    ],
)
def test_what_dockerignore_keeps_out(lines: str, path: str, out: bool) -> None:  # noqa: FBT001 - a table
    assert is_ignored(path, patterns_of(lines)) is out


@pytest.mark.parametrize("name", [".dockerignore", "Dockerfile.dockerignore"])
@pytest.mark.parametrize("copy", ["COPY requirements.txt /r/", "COPY . /r"])
def test_a_file_that_the_context_has_not_is_no_part_of_the_image(tmp_path: Path, name: str, copy: str) -> None:
    files = {"requirements.txt": "cupy\n", "app.py": "", name: "*\n!app.py\n"}
    found = judged(tmp_path, f"FROM python:3.12-slim\n{copy}\nRUN pip install -r /r/requirements.txt", files)
    assert told(found) == [("DKF917", "Dockerfile", 1)]
    assert "keeps it out of the build context" in found.findings[0].title
    assert "!requirements.txt" in found.findings[0].fix[0].text


@pytest.mark.parametrize(
    ("steps", "severities"),
    [
        ("RUN git clone https://host.invalid/x . && pip install -r requirements.txt", ["note"]),
        ("RUN poetry export -o requirements.txt\nCOPY . .\nRUN pip install -r requirements.txt", []),
        ("COPY . .\nRUN poetry export -o requirements.txt\nRUN pip install -r requirements.txt", []),
        ("RUN --mount=type=bind,source=requirements.txt,target=/r.txt pip install -r /r.txt", ["warning"]),
    ],
)
def test_a_file_that_does_not_come_from_the_context_may_be_kept_out_of_it(
    tmp_path: Path, steps: str, severities: list[str]
) -> None:
    files = {"requirements.txt": "numpy\n", "app.py": "", ".dockerignore": "*\n!app.py\n"}
    found = judged(tmp_path, f"FROM python:3.12-slim\nWORKDIR /app\n{steps}", files)
    assert [entry.severity.value for entry in found.findings if entry.code == "DKF917"] == severities


def test_the_file_of_the_dockerfile_goes_before_the_folders(tmp_path: Path) -> None:
    files = {"requirements.txt": "cupy\n", ".dockerignore": "*\n", "Dockerfile.dockerignore": "x\n"}
    text = "FROM python:3.12-slim\nCOPY requirements.txt /r/\nRUN pip install -r /r/requirements.txt"
    assert told(judged(tmp_path, text, files)) == [("DKF906", "requirements.txt", 1)]


def test_a_line_of_dockerignore_of_any_length_is_read_soon() -> None:
    begun = time.monotonic()
    lines = patterns_of("\n".join(["**/" * 160 + "x", "*" * 400 + "y", "*a" * 200 + "y", "[" * 400] * 30))
    for path in ("a/" * 200 + "b", "a" * 4000):
        is_ignored(path, lines)
    assert time.monotonic() - begun < 5.0


def test_a_dockerignore_of_any_size_is_refused_in_little_memory(tmp_path: Path) -> None:
    """A file with a hole of 1 GiB: it is reported, and never read whole."""
    with (tmp_path / ".dockerignore").open("wb") as file:
        file.truncate(1 << 30)
    tracemalloc.start()
    context = context_of(tmp_path, tmp_path / "Dockerfile")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert context.passed_over == {".dockerignore": "larger than 1048576 bytes"}
    assert peak < 8 << 20
