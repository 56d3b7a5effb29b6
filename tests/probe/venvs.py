"""Virtual environments of the tests' own, real ones, and what is in them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def make_venv(folder: Path, python: str | Path = sys.executable) -> Path:
    """A virtual environment made by Python's own module."""
    subprocess.run([str(python), "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


def interpreter_of(venv: Path) -> Path:
    """Its interpreter."""
    return venv / "bin" / "python3"


def site_packages(venv: Path) -> Path:
    """Where its packages are installed."""
    (folder,) = venv.glob("lib/python*/site-packages")
    return folder


def uv(*arguments: str | Path) -> None:
    """Uv, without the network; a failure says what it said."""
    command = [sys.executable, "-m", "uv", "--no-config", "--offline", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def install(venv: Path, *wheels: Path) -> None:
    """Installs wheels by uv, which writes their RECORD; of two that own a file, the later one's stays."""
    for wheel in wheels:
        uv("pip", "install", "--no-cache", "--no-index", "--no-deps", "--python", interpreter_of(venv), wheel)
