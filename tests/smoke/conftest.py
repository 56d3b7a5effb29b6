"""A target and a machine for whole runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.simulate.layout import SimulatedMachine, materialise
from gpuenv.simulate.profile import TargetSpec
from gpuenv.simulate.profile import load as load_profile
from tests.support.target import CudaLibraries, Targets

if TYPE_CHECKING:
    from gpuenv.simulate.stub_driver import StubDriver

MACHINES = Path(__file__).parents[1] / "machines"
WITH_CUPY = TargetSpec(packages=("cupy-cuda12x==14.2.0", "numpy==2.3.4"))


@pytest.fixture(scope="module")
def target(targets: Targets) -> Path:
    """An environment with the metadata of CuPy and none of its modules."""
    return targets.interpreter(WITH_CUPY)


@pytest.fixture
def machine(tmp_path: Path, stub_driver: StubDriver, cuda_libraries: CudaLibraries) -> SimulatedMachine:
    """A simulated machine with eight H100 GPUs."""
    folder = tmp_path / "machine"
    folder.mkdir()
    return materialise(load_profile(MACHINES / "h100x8-550.yaml"), folder, stub_driver, cuda_libraries.of)
