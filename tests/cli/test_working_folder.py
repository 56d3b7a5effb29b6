"""Neither the program nor its child processes run code in the working directory, which may have been removed."""

from __future__ import annotations

import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.cli.program import LIMIT, MINIMAL

ROOT = Path(__file__).parents[2]
PROGRAM = Path(sysconfig.get_path("scripts")) / "gpuenv"
# Modules that the program and its children import: of the standard library, the dependencies and CuPy.
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
def malicious_folder(tmp_path: Path) -> Path:
    """A folder with a module for each of these names; each module writes a file when it is run."""
    folder = tmp_path / "work"
    folder.mkdir()
    for name in NAMES:
        text = f"open({str(tmp_path / 'run')!r}, 'a').write({name!r} + ' ')\nraise SystemExit(99)\n"
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


def test_a_module_that_runs_writes_its_name(malicious_folder: Path) -> None:
    assert (
        subprocess.run([sys.executable, "-m", "numpy"], cwd=malicious_folder, env=MINIMAL, check=False).returncode == 99
    )
    assert (malicious_folder.parent / "run").read_text(encoding="utf-8") == "numpy "


@pytest.mark.parametrize("command", ["doctor", "probe", "preflight"])
def test_code_in_the_working_directory_is_not_run(malicious_folder: Path, command: str) -> None:
    options = ("--python", sys.executable, "--deep") if command != "preflight" else ("--python", sys.executable)
    result = subprocess.run(
        [PROGRAM, command, *options, "--format", "json"],
        cwd=malicious_folder, env=MINIMAL, capture_output=True, text=True, check=False, timeout=LIMIT,
    )  # fmt: skip
    assert result.returncode in (0, 1, 8), result.stderr
    assert result.stdout.startswith("{")
    assert not (malicious_folder.parent / "run").exists(), (malicious_folder.parent / "run").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", [":/usr/bin:/bin", "/usr/bin:/bin:", "/usr/bin:.:/bin", "programs:/usr/bin:/bin"])
@pytest.mark.parametrize(
    "command", ["doctor", "install --dry-run --yes --offline", "run sh -c false", "simulate h100x8-550 -- /bin/true"]
)
def test_no_program_of_the_working_folder_is_run(tmp_path: Path, path: str, command: str) -> None:
    """Also where PATH has an entry that means that folder."""
    for folder in (tmp_path, tmp_path / "programs"):
        folder.mkdir(exist_ok=True)
        for name in ("nvidia-smi", "python3", "python", "uv", "pip", "nvcc", "conda", "docker"):
            (folder / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/run\n", encoding="utf-8")
            (folder / name).chmod(0o755)
    (tmp_path / "cc").write_text(f"#!/bin/sh\necho cc >> {tmp_path}/run\n", encoding="utf-8")
    (tmp_path / "cc").chmod(0o755)
    environment = {**MINIMAL, "PATH": path}
    result = subprocess.run(
        [PROGRAM, *command.split()],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT,
    )  # fmt: skip
    assert not (tmp_path / "run").exists(), (tmp_path / "run").read_text(encoding="utf-8")
    assert "Traceback" not in result.stderr
    assert ("PATH: entries that are not absolute" in result.stderr) == (not command.startswith(("run", "simulate"))), (
        result.stderr
    )


@pytest.mark.parametrize(
    "command", ["doctor", "install --yes", "rollback -o out.json", "doctor --no-config -o out.json", "smoke"]
)
def test_a_removed_working_folder_is_named(tmp_path: Path, command: str) -> None:
    folder = tmp_path / "removed"
    folder.mkdir()
    program, python = shlex.quote(str(PROGRAM)), shlex.quote(sys.executable)
    script = f"rmdir {folder} && exec {program} {command} --python {python}"
    environment = {**MINIMAL, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        ["/bin/sh", "-c", script],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT,
    )  # fmt: skip
    assert result.returncode == 2, result.stderr
    lines = result.stderr.splitlines()
    assert "gpuenv: the working folder: No such file or directory" in lines[:2], (
        result.stderr
    )  # some shells complain first
