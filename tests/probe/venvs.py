"""Real virtual environments and their content."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def make_venv(folder: Path, python: str | Path = sys.executable) -> Path:
    """Creates a virtual environment by Python's venv module."""
    subprocess.run([str(python), "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


def interpreter_of(venv: Path) -> Path:
    """The interpreter of an environment."""
    return venv / "bin" / "python3"


def site_packages(venv: Path) -> Path:
    """The site-packages folder of an environment."""
    (folder,) = venv.glob("lib/python*/site-packages")
    return folder


def uv(*arguments: str | Path) -> None:
    """Runs uv without the network; a failure shows its output."""
    command = [sys.executable, "-m", "uv", "--no-config", "--offline", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def install(venv: Path, *wheels: Path) -> None:
    """Installs wheels with uv, which writes RECORD; of a file in two wheels the later one remains."""
    for wheel in wheels:
        uv("pip", "install", "--no-cache", "--no-index", "--no-deps", "--python", interpreter_of(venv), wheel)
