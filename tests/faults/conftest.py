"""A healthy machine for each test that injects a fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.healthy_machine import HealthyMachine, make_healthy_machine

if TYPE_CHECKING:
    from pathlib import Path

    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries, Targets


@pytest.fixture
def machine(tmp_path: Path, stub_driver: StubDriver, cuda_libraries: CudaLibraries, targets: Targets) -> HealthyMachine:
    """A machine without faults."""
    return make_healthy_machine(tmp_path, stub_driver, cuda_libraries, targets)
