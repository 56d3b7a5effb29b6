"""Code in the working folder is run neither by the program nor by its children."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.cli.program import LIMIT, MINIMAL

PROGRAM = Path(sysconfig.get_path("scripts")) / "gpuenv"
# What the program, its children and their interpreters import: of the standard library, of the dependencies, of CuPy.
NAMES = (
    *(
        "sitecustomize",
        "usercustomize",
        "json",
        "typing",
        "dataclasses",
        "subprocess",
        "ctypes",
        "platform",
        "sysconfig",
    ),
    *("yaml", "typer", "rich", "packaging", "pynvml", "gpuenv", "telling", "numpy", "cupy", "cuda"),
)


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder with a module for each of these names, which notes that it was run."""
    folder = tmp_path / "work"
    folder.mkdir()
    for name in NAMES:
        text = f"open({str(tmp_path / 'run')!r}, 'a').write({name!r} + ' ')\nraise SystemExit(99)\n"
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


def test_a_planted_module_is_noticed_where_it_is_run(planted: Path) -> None:
    assert subprocess.run([sys.executable, "-m", "numpy"], cwd=planted, env=MINIMAL, check=False).returncode == 99
    assert (planted.parent / "run").read_text(encoding="utf-8") == "numpy "


@pytest.mark.parametrize("command", ["doctor", "probe", "preflight"])
def test_code_in_the_working_folder_is_not_run(planted: Path, command: str) -> None:
    options = ("--python", sys.executable, "--deep") if command != "preflight" else ("--python", sys.executable)
    done = subprocess.run(
        [PROGRAM, command, *options, "--format", "json"],
        cwd=planted, env=MINIMAL, capture_output=True, text=True, check=False, timeout=LIMIT,
    )  # fmt: skip
    assert done.returncode in (0, 1, 8), done.stderr
    assert done.stdout.startswith("{")
    assert not (planted.parent / "run").exists(), (planted.parent / "run").read_text(encoding="utf-8")
