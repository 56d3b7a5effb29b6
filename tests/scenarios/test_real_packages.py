"""Scenarios of real packages: causes that need the files of CuPy, of CUDA wheels and of NVRTC."""

from __future__ import annotations

import ctypes.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import PROGRAM
from tests.install.sandbox import run
from tests.scenarios.real_packages import REAL_PACKAGES, RealScenario
from tests.support.target import metadata_wheel

pytestmark = pytest.mark.network
# CuPy searches /usr/local for a toolkit, and an empty directory there counts as one: hide it in a mount namespace.
HIDE_TOOLKIT = ("unshare", "--mount", "--", "sh", "-c", 'mount -t tmpfs tmpfs /usr/local && exec "$@"', "sh")
HIDDEN_VARIABLES = ("VIRTUAL_ENV", "CONDA", "LD_LIBRARY_PATH", "CUDA")
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(HIDDEN_VARIABLES)}
MACHINE = ("--assume", "driver=580.95.05", "--assume", "gpu=H100")


def target(folder: Path, scenario: RealScenario) -> Path:
    uv = [sys.executable, "-m", "uv", "--quiet"]
    run([*uv, "venv", "--python", sys.executable, str(folder / "venv")], ENVIRONMENT)
    # Copied instead of linked, because files are deleted below.
    install = [*uv, "pip", "install", "--link-mode", "copy", "--python", str(folder / "venv/bin/python")]
    for packages in scenario.packages:
        run([*install, *packages.split()], ENVIRONMENT)
    for package in scenario.metadata:
        run([*install, "--no-deps", str(metadata_wheel(folder, package))], ENVIRONMENT)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    for pattern in scenario.remove:
        paths = list(site.glob(pattern))
        assert paths, pattern
        for path in paths:
            path.unlink()
    return folder / "venv"


def without_toolkit(command: list[str]) -> list[str]:
    """The command on a machine without a CUDA toolkit; skips the test if the toolkit cannot be hidden."""
    if not list(Path("/usr/local").glob("cuda*")):
        return command
    if sys.prefix.startswith("/usr/local/") or subprocess.run([*HIDE_TOOLKIT, "true"], check=False).returncode != 0:
        pytest.skip("this machine has a CUDA toolkit in /usr/local, and it cannot be hidden")
    return [*HIDE_TOOLKIT, *command]


@pytest.mark.parametrize("scenario", REAL_PACKAGES, ids=lambda scenario: f"{scenario.cause}: {scenario.name}")
def test_the_doctor_names_the_cause_of_a_package_fault(scenario: RealScenario, tmp_path: Path) -> None:
    if ctypes.util.find_library("nvrtc"):
        pytest.skip("the loader of this machine finds CUDA libraries")
    venv = target(tmp_path, scenario)
    libraries = {str(path.parent) for path in venv.glob("lib/python*/site-packages/nvidia/*/lib/*.so.*")}
    variables = {"LD_LIBRARY_PATH": ":".join(sorted(libraries))} if scenario.on_library_path else {}
    command = [*PROGRAM, "doctor", "--python", str(venv), "--format", "json", *MACHINE]
    process = subprocess.run(
        without_toolkit(command), env=ENVIRONMENT | variables, capture_output=True, text=True, check=False, timeout=600
    )
    assert process.stdout, process.stderr
    findings = json.loads(process.stdout)["findings"]
    assert (scenario.code, scenario.cause) in {(f["code"], f["cause"]) for f in findings}, json.dumps(
        findings, indent=1
    )
