"""The wheels of an image, asked of a pip of any age: what tells it of another Python is no option of that one alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from gpuenv.image.locking import lock_image
from gpuenv.install.backends import pip
from gpuenv.install.backends.base import Options
from gpuenv.install.resolving import Caller
from gpuenv.probe.children import ChildGroup
from tests.install.wheels import SET, make_wheel

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpuenv.install.records import Pin

WANTED = ("cupy-cuda12x[ctk]==14.2.0",)
LOCKED = {"cuda-toolkit": "12.9.2", "cupy-cuda12x": "14.2.0", "numpy": "2.1.0", "nvidia-cuda-nvrtc-cu12": "12.9.86"}


def _locked(program: tuple[str, ...], release: str, folder: Path, environment: Mapping[str, str]) -> tuple[Pin, ...]:
    wheels = folder / "wheels"
    wheels.mkdir()
    for package in SET:
        make_wheel(wheels, package)
    options = Options(sys.executable, find_links=str(wheels))
    caller = Caller(pip.Pip(program, release), options, environment, time.monotonic() + 120, ChildGroup())
    return lock_image(caller, WANTED, "3.12", "linux/amd64")


def test_by_the_pip_that_comes_with_python(tmp_path: Path) -> None:
    """That of CPython 3.11.7 is 23.2.1, which takes a platform with --target alone."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    pins = _locked((str(venv / "bin/python"), "-m", "pip"), "of Python's own", tmp_path, os.environ)
    assert {pin.name: pin.release for pin in pins} == LOCKED
    assert all(pin.sha256 for pin in pins)


def test_a_report_of_pip_before_23_is_understood() -> None:
    """As pip 22.3.1 writes it: its version is 0, and the digest stands in ``hash`` alone."""
    digest = "4721f391ed90541fddacab5acf947aa0d3dc7d27b2e1e8eda2be8970586c3274"
    archive = {
        "url": "https://index.example/six-1.17.0-py2.py3-none-any.whl",
        "archive_info": {"hash": f"sha256={digest}"},
    }
    entry = {"download_info": archive, "is_direct": False, "metadata": {"name": "six", "version": "1.17.0"}}
    report = {"version": "0", "pip_version": "22.3.1", "install": [entry]}
    (pin,) = pip.Pip(("pip",), "22.3.1").resolved("", json.dumps(report))
    assert (pin.name, pin.release, pin.sha256) == ("six", "1.17.0", (digest,))
    with pytest.raises(ValueError, match="report of version"):
        pip.Pip(("pip",), "99").resolved("", json.dumps({**report, "version": "2"}))


@pytest.mark.network
@pytest.mark.parametrize("release", [str(pip.OLDEST), "23.2.1", "23.3", "24.2"])
def test_by_older_ones(release: str, tmp_path: Path) -> None:
    place = tmp_path / "pip"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--target", str(place), f"pip=={release}"], check=True
    )
    environment = {**os.environ, "PYTHONPATH": str(place)}
    pins = _locked((sys.executable, "-m", "pip"), release, tmp_path, environment)
    assert {pin.name: pin.release for pin in pins} == LOCKED
