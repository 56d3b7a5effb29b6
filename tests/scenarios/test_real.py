"""Scenarios of real packages: the causes that only CuPy's own files, CUDA's wheels and NVRTC itself can show."""

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
from tests.scenarios.real import REAL, RealScenario
from tests.support.target import metadata_wheel

pytestmark = pytest.mark.network
# In a mount namespace of its own: CuPy looks for a toolkit of the machine there, and an empty folder counts as one.
HIDE = ("unshare", "--mount", "--", "sh", "-c", 'mount -t tmpfs tmpfs /usr/local && exec "$@"', "sh")
HIDDEN = ("VIRTUAL_ENV", "CONDA", "LD_LIBRARY_PATH", "CUDA")
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(HIDDEN)}
MACHINE = ("--assume", "driver=580.95.05", "--assume", "gpu=H100")


def target(folder: Path, scenario: RealScenario) -> Path:
    uv = [sys.executable, "-m", "uv", "--quiet"]
    run([*uv, "venv", "--python", sys.executable, str(folder / "venv")], ENVIRONMENT)
    # Copied: what is deleted here shall not be missing elsewhere.
    install = [*uv, "pip", "install", "--link-mode", "copy", "--python", str(folder / "venv/bin/python")]
    for packages in scenario.packages:
        run([*install, *packages.split()], ENVIRONMENT)
    for package in scenario.metadata:
        run([*install, "--no-deps", str(metadata_wheel(folder, package))], ENVIRONMENT)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    for pattern in scenario.remove:
        found = list(site.glob(pattern))
        assert found, pattern
        for path in found:
            path.unlink()
    return folder / "venv"


def alone(command: list[str]) -> list[str]:
    """The command on a machine without a CUDA toolkit; skips the test where one cannot be hidden."""
    if not list(Path("/usr/local").glob("cuda*")):
        return command
    if sys.prefix.startswith("/usr/local/") or subprocess.run([*HIDE, "true"], check=False).returncode != 0:
        pytest.skip("this machine has a CUDA toolkit in /usr/local, and it cannot be hidden")
    return [*HIDE, *command]


@pytest.mark.parametrize("scenario", REAL, ids=lambda scenario: f"{scenario.cause}: {scenario.name}")
def test_the_doctor_names_the_cause(scenario: RealScenario, tmp_path: Path) -> None:
    if ctypes.util.find_library("nvrtc"):
        pytest.skip("the loader of this machine finds CUDA libraries")
    venv = target(tmp_path, scenario)
    libraries = {str(path.parent) for path in venv.glob("lib/python*/site-packages/nvidia/*/lib/*.so.*")}
    found_by = {"LD_LIBRARY_PATH": ":".join(sorted(libraries))} if scenario.by_loader else {}
    command = [*PROGRAM, "doctor", "--python", str(venv), "--format", "json", *MACHINE]
    done = subprocess.run(
        alone(command), env=ENVIRONMENT | found_by, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)["findings"]
    assert (scenario.code, scenario.cause) in {(f["code"], f["cause"]) for f in found}, json.dumps(found, indent=1)
