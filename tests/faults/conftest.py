"""A sound machine for each test that spoils one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.ground import Sound, lay_out

if TYPE_CHECKING:
    from pathlib import Path

    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries, Targets


@pytest.fixture
def sound(tmp_path: Path, stub_driver: StubDriver, cuda_libraries: CudaLibraries, targets: Targets) -> Sound:
    """A machine on which nothing is wrong yet."""
    return lay_out(tmp_path, stub_driver, cuda_libraries, targets)
