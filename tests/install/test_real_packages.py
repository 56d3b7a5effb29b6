"""The real CuPy, NumPy and CUDA wheels of the package index, put into real environments and taken out again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.install.standins import MACHINE, PROGRAM, contents, run, versions

pytestmark = pytest.mark.network
LIMIT = 1800
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("VIRTUAL_ENV", "CONDA"))}
TOOLKIT = ("--assume", "toolkit=12.9")


def gpuenv(*arguments: str | Path) -> tuple[int, Any]:
    done = subprocess.run(
        [*PROGRAM, *map(str, arguments), "--format", "json", "--no-redact"],
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def target(folder: Path, *packages: str) -> Path:
    """An environment with these packages, each installed for itself."""
    uv = [sys.executable, "-m", "uv", "--quiet"]
    run([*uv, "venv", "--python", sys.executable, str(folder)], ENVIRONMENT)
    for package in packages:
        run([*uv, "pip", "install", "--python", str(folder / "bin/python"), package], ENVIRONMENT)
    return folder


def test_a_fresh_environment(tmp_path: Path) -> None:
    """All that the resolver asks for, the CUDA wheels included, in the versions of a bare uv."""
    folder = target(tmp_path / "venv")
    before = contents(folder)
    code, told = gpuenv("install", "--python", folder, "--yes", *MACHINE)
    assert (code, told["status"]) == (0, "installed"), told["message"]
    assert all(proof["passed"] for proof in told["proofs"]), told["proofs"]
    bare = target(tmp_path / "bare", *told["plan"]["requirements"])
    assert versions(folder) == versions(bare)
    assert gpuenv("rollback", "--python", folder)[0] == 0
    assert contents(folder) == before


def test_both_lines_there(tmp_path: Path) -> None:
    folder = target(tmp_path / "venv", "cupy-cuda11x", "cupy-cuda12x==14.0.0")
    before = contents(folder)
    code, told = gpuenv("install", "--python", folder, "--yes", *MACHINE, *TOOLKIT)
    assert (code, told["status"]) == (0, "installed"), told["message"]
    there = [name for name in versions(folder) if name.startswith("cupy")]
    assert there == ["cupy-cuda12x"]
    assert gpuenv("rollback", "--python", folder)[0] == 0
    assert contents(folder) == before


def test_numpy_1_stays(tmp_path: Path) -> None:
    """No CuPy 14 there: the resolver takes an older one, and NumPy is not moved."""
    folder = target(tmp_path / "venv", "numpy==1.26.4")
    code, told = gpuenv("install", "--python", folder, "--yes", *MACHINE, *TOOLKIT)
    assert (code, told["status"]) == (0, "installed"), told["message"]
    assert versions(folder)["numpy"] == "1.26.4"
    assert told["plan"]["moves"] == []
