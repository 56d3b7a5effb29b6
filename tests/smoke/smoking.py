"""How the tests run ``gpuenv smoke``: as its users do, with and without a GPU, real processes throughout."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.simulate.machine import SimulatedMachine, materialise
from gpuenv.simulate.profile import TargetSpec
from gpuenv.simulate.profile import load as load_profile
from tests.cli.program import MINIMAL, PROGRAM
from tests.support.target import CudaLibraries, Targets

if TYPE_CHECKING:
    from gpuenv.simulate.build import StubDriver

MACHINES = Path(__file__).parents[1] / "machines"
LAUNCHER = Path(__file__).with_name("launcher.py")
WITH_CUPY = TargetSpec(packages=("cupy-cuda12x==14.2.0", "numpy==2.3.4"))


@pytest.fixture(scope="module")
def target(targets: Targets) -> Path:
    """An environment in which CuPy's metadata is, and no module of it."""
    return targets.interpreter(WITH_CUPY)


@pytest.fixture
def machine(tmp_path: Path, stub_driver: StubDriver, cuda_libraries: CudaLibraries) -> SimulatedMachine:
    """Eight H100."""
    folder = tmp_path / "machine"
    folder.mkdir()
    return materialise(load_profile(MACHINES / "h100x8-550.yaml"), folder, stub_driver, cuda_libraries.of)


def smoke(*arguments: str | Path, **variables: str) -> tuple[int, Any]:
    done = run(*arguments, "--format", "json", "--no-redact", **variables)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def run(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, "smoke", *map(str, arguments)]
    done = subprocess.run(
        command, env={**MINIMAL, **variables}, capture_output=True, text=True, check=False, timeout=120
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def started_in(folder: Path, *arguments: str | Path, **variables: str) -> Any:  # noqa: ANN401 - JSON
    """The one test of a run in a working folder; CHILD_PYTHONPATH is what its children have as PYTHONPATH."""
    command = [sys.executable, str(LAUNCHER), "smoke", "kernels", "--gpu", "0", "--format", "json"]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        env={**MINIMAL, **variables},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    (test,) = of_kernels(json.loads(done.stdout))
    return test


def of_kernels(result: Any) -> list[Any]:  # noqa: ANN401 - JSON
    """Without the look at the GPUs' health that follows a failure."""
    return [test for test in result["tests"] if test["group"] == "kernels"]
