"""What a refresh reports: new lines, several releases of a companion, progress, the exit code and Markdown."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.data import data_path
from gpuenv.matrix.canonical import matrix_text
from gpuenv.matrix.load import load, read_values, to_matrix
from gpuenv.refresh.additions import next_names
from tests.recipes.recipe_files import read_yaml
from tests.refresh.local_index import LINUX, LocalIndex, Wheel, make_wheel
from tests.refresh.workspace import SMALL, Workspace
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = "rmm-cu13"


def _offer(index: LocalIndex, *wheels: Wheel) -> None:
    index.files = {**index.files, **{wheel.file: wheel for wheel in wheels}}


def _new_line() -> Iterator[Wheel]:
    for release, tag in (("15.0.0", "cp311"), ("15.1.0", "cp314"), ("15.2.0rc1", "cp311")):
        yield make_wheel("cupy-cuda14x", release, f"{tag}-{tag}-{LINUX}", {})


def _companions() -> Iterator[Wheel]:
    for release, bindings in (("26.10.0", "13.0"), ("98.2.0", "13.1"), ("98.2.1", "13.1"), ("98.4.0", "13.3")):
        yield make_wheel(_NAME, release, f"py3-none-{LINUX}", {}, f"Requires-Dist: cuda-bindings<14.0,>={bindings}")


def test_the_next_lines_are_looked_for_by_name() -> None:
    assert list(next_names(MATRIX)) == [
        *("cupy-cuda14x", "cupy-cuda15x"),
        *("cupy-rocm-7-1", "cupy-rocm-7-2", "cupy-rocm-8-0"),
    ]


@pytest.mark.parametrize("tool", ["uv", "pip"])
def test_a_new_line_is_reported_with_its_releases(tool: str, workspace: Workspace, index: LocalIndex) -> None:
    assert workspace.run()[0] == 0
    assert workspace.run("--exit-code")[0] == 0
    before = workspace.text
    _offer(index, *_new_line())
    code, out, error = workspace.run("--exit-code", "--index", tool)
    assert code == 1, error
    assert "! new line cupy-cuda14x: releases 15.1.0, 15.0.0; not added: " in out
    assert "is up to date" not in out
    assert workspace.text == before
    assert not any(".whl" in path and "14x" in path for path in index.requests if not path.endswith(".metadata"))


def test_every_new_release_of_a_companion_is_recorded(workspace: Workspace, index: LocalIndex) -> None:
    values, _ = read_values(SMALL, "m.yaml")
    shipped, _ = read_values(data_path("matrix.yaml").read_text(encoding="utf-8"), "matrix.yaml")
    values["companions"] = [row for row in shipped["companions"] if row["distribution"] == _NAME]
    text = matrix_text(to_matrix(values, "m.yaml", {}), values, {})
    workspace.matrix.write_text(text, encoding="utf-8")
    _offer(index, *_companions())
    code, out, error = workspace.run()
    assert code == 0, error
    rows = [(row.versions, row.pins) for row in load(workspace.matrix).companions]
    assert rows[:2] == [
        ("==98.4.0", ("cuda-bindings<14.0,>=13.3",)),
        (">=98.2.0,<=98.2.1", ("cuda-bindings<14.0,>=13.1",)),
    ]
    assert len(rows) == 3
    assert f"+ {_NAME} 98.2.0 to 98.2.1: " in out
    assert list((workspace.matrix.parent / "cache" / "gpuenv" / "refresh").iterdir()) == []
    assert "is up to date" in workspace.run()[1]


def test_the_number_of_queries_is_shown_before_the_first_answer(workspace: Workspace, index: LocalIndex) -> None:
    index.delayed = "-"  # every project
    child = workspace.start("--dry-run")
    assert child.stderr is not None
    lines = []
    while "querying" not in (line := child.stderr.readline()):
        assert line
        lines.append(line)
    assert lines[0] == "gpuenv: looking for new releases on the package index\n"
    assert line == "gpuenv: querying the package index with uv: 8 queries\n"
    index.release.set()
    _, error = child.communicate(timeout=300)
    assert "answered: 8 of 8 queries" in error


def test_queries_download_no_python(workspace: Workspace, index: LocalIndex) -> None:
    """uv would download the Python that a query is for."""
    workspace.environment["UV_PYTHON_DOWNLOADS"] = "automatic"
    workspace.environment["UV_PYTHON_INSTALL_MIRROR"] = f"{index.address}/pythons"
    assert workspace.run("--dry-run")[0] == 0
    assert [path for path in index.requests if path.startswith("/pythons")] == []


def test_the_summary_in_markdown_has_a_table_of_changed_answers(workspace: Workspace) -> None:
    file = workspace.matrix.parent / "summary.md"
    code, out, error = workspace.run("--dry-run", "--exit-code", "--format", "markdown", "-o", str(file))
    assert (code, out) == (1, ""), error
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    lines = file.read_text(encoding="utf-8").splitlines()
    start = lines.index("```diff")
    assert lines[start + 1].startswith("+ CUDA 13.5: ")
    assert lines[start + 3] == "```"
    heading = lines.index("| kind of machine | driver branches | capabilities | before | after |")
    assert lines[heading + 1] == "| --- | --- | --- | --- | --- |"
    assert lines[heading + 2].startswith("| Linux x86_64")
    assert re.search(r" \| `cupy-cuda13x\S*==14\.1\.1` \| `cupy-cuda13x\S*==14\.[^|`]+` \|$", lines[heading + 2])
    assert lines[-1] == f"{workspace.matrix}: not written"


@pytest.mark.parametrize("name", [".", "m.yaml"])
def test_a_folder_or_the_matrix_itself_is_refused_for_the_summary(workspace: Workspace, name: str) -> None:
    before = workspace.text
    code, _, error = workspace.run("-o", str(workspace.matrix.parent / name))
    assert code == 2
    assert "cannot be written" in error
    assert "queries" not in error
    assert workspace.text == before


def test_a_summary_that_cannot_be_written_is_printed(workspace: Workspace) -> None:
    code, out, error = workspace.run("-o", "/dev/full")
    assert code == 2
    assert "/dev/full: cannot be written" in error
    assert "+ cupy-cuda13x 14.2.0" in out


def test_a_missing_folder_for_the_summary_is_refused_before_the_refresh(workspace: Workspace) -> None:
    code, _, error = workspace.run("-o", str(workspace.matrix.parent / "missing" / "summary.md"))
    assert code == 2
    assert "is not a folder" in error
    assert workspace.text == SMALL


def _checkout(workspace: Workspace, folder: Path) -> dict[str, str]:
    """Makes a checkout with the matrix, and returns the environment of the recipe in it."""
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "gpuenv").symlink_to(Path(sysconfig.get_path("scripts")) / "gpuenv")
    (programs / "cuobjdump").write_text("", encoding="utf-8")
    (folder / "gpuenv" / "data").mkdir(parents=True)
    (folder / "gpuenv" / "data" / "sources.csv").write_text("", encoding="utf-8")
    (folder / "matrix.yaml").write_text(workspace.text, encoding="utf-8")
    environment = {**workspace.environment, "GITHUB_STEP_SUMMARY": str(folder / "step.md")}
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    for words in (("init", "--quiet"), ("add", "matrix.yaml"), (*identity, "commit", "--quiet", "-m", "Matrix")):
        subprocess.run(["git", *words], cwd=folder, env=environment, check=True, timeout=60)
    return environment


@pytest.mark.parametrize(
    ("is_current", "has_new_line", "code"), [(False, False, 0), (False, True, 0), (True, False, 0), (True, True, 1)]
)
def test_the_scheduled_job_fails_only_for_news_that_it_cannot_propose(
    *, is_current: bool, has_new_line: bool, code: int, workspace: Workspace, index: LocalIndex, tmp_path: Path
) -> None:
    if shutil.which("git") is None:
        pytest.skip("no git")
    if is_current:
        assert workspace.run()[0] == 0
    if has_new_line:
        _offer(index, *_new_line())
    folder = tmp_path / "checkout"
    environment = _checkout(workspace, folder)
    (step,) = [
        step["run"]
        for step in read_yaml("github/matrix-refresh.yml")["jobs"]["measure"]["steps"]
        if "matrix refresh" in step.get("run", "")
    ]
    # As the runner calls `shell: bash` (GitHub Docs, "Workflow syntax", jobs.<job_id>.steps[*].shell).
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == code, done.stderr
    summary = (folder / "step.md").read_text(encoding="utf-8")
    assert ("! new line cupy-cuda14x" in summary) is has_new_line
    assert summary == (folder / "result" / "summary.md").read_text(encoding="utf-8")
    assert {path.name for path in (folder / "result").iterdir()} == {"matrix.yaml", "sources.csv", "summary.md"}
