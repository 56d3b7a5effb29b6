"""The wheels of an image, locked by pip for another Python than its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuenv.image.build.packages import lock_image
from gpuenv.install.backends import pip
from gpuenv.install.backends.base import InstallerOptions, TimeBudget
from gpuenv.install.exceptions import TargetUnusable
from gpuenv.install.installer_config import InstallerRun
from gpuenv.probe.children import ChildGroup
from tests.install.wheels import SET, make_wheel, numpy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


WANTED = ("cupy-cuda12x[ctk]==14.2.0",)
LOCKED = {"cuda-toolkit": "12.9.2", "cupy-cuda12x": "14.2.0", "numpy": "2.1.0", "nvidia-cuda-nvrtc-cu12": "12.9.86"}
NEWEST = {**LOCKED, "numpy": "2.9.0"}


def _caller(program: tuple[str, ...], release: str, wheels: Path, environment: Mapping[str, str]) -> InstallerRun:
    options = InstallerOptions(sys.executable, find_links=str(wheels))
    return InstallerRun(pip.Pip(program, release), options, environment, TimeBudget(120), ChildGroup())


@pytest.mark.parametrize("release", ["22.2", "23.2.1", "24.0", "24.1.2"])
def test_an_old_pip_is_not_run(release: str, tmp_path: Path) -> None:
    caller = _caller((str(tmp_path / "nothing-to-run"),), release, tmp_path, {})
    with pytest.raises(TargetUnusable, match=f"pip {release} resolves wheels for its own Python only") as caught:
        lock_image(caller, WANTED, "3.12", "linux/amd64")
    assert caught.value.remedy is not None
    assert caught.value.remedy.startswith("Install uv: ")


def test_a_report_of_pip_before_23_is_understood() -> None:
    """As pip 22.3.1 writes it: its version is 0, and the digest is only in ``hash``."""
    digest = "4721f391ed90541fddacab5acf947aa0d3dc7d27b2e1e8eda2be8970586c3274"
    archive = {
        "url": "https://index.example/six-1.17.0-py2.py3-none-any.whl",
        "archive_info": {"hash": f"sha256={digest}"},
    }
    entry = {"download_info": archive, "is_direct": False, "metadata": {"name": "six", "version": "1.17.0"}}
    report = {"version": "0", "pip_version": "22.3.1", "install": [entry]}
    (pin,) = pip.Pip(("pip",), "22.3.1").parse_resolved("", json.dumps(report))
    assert (pin.name, pin.release, pin.sha256) == ("six", "1.17.0", (digest,))
    with pytest.raises(ValueError, match="report of version"):
        pip.Pip(("pip",), "99").parse_resolved("", json.dumps({**report, "version": "2"}))


@pytest.mark.network
@pytest.mark.parametrize("release", ["24.2", "26.0"])
def test_pip_resolves_wheels_for_another_python(release: str, tmp_path: Path) -> None:
    """The newest NumPy is for a Python that is newer than any that pip runs in here."""
    place, wheels = tmp_path / "pip", tmp_path / "wheels"
    wheels.mkdir()
    for package in (*SET, replace(numpy("2.9.0"), python=">=3.20")):
        make_wheel(wheels, package)
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--target", str(place), f"pip=={release}"], check=True
    )
    caller = _caller((sys.executable, "-m", "pip"), release, wheels, {**os.environ, "PYTHONPATH": str(place)})
    assert {pin.name: pin.release for pin in lock_image(caller, WANTED, "3.20", "linux/amd64")} == NEWEST
    assert {pin.name: pin.release for pin in lock_image(caller, WANTED, "3.12", "linux/amd64")} == LOCKED
