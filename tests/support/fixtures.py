"""Session fixtures of tests on simulated machines."""

from __future__ import annotations

import pytest

from gpuenv.simulate.stub_driver import StubDriver, build
from tests.support.target import CudaLibraries, Targets


@pytest.fixture(scope="session")
def stub_driver(tmp_path_factory: pytest.TempPathFactory) -> StubDriver:
    """The compiled stub driver."""
    return build(tmp_path_factory.mktemp("stub"), extra_flags=("-Werror",))


@pytest.fixture(scope="session")
def cuda_libraries(tmp_path_factory: pytest.TempPathFactory) -> CudaLibraries:
    """Empty CUDA libraries."""
    return CudaLibraries(tmp_path_factory.mktemp("cuda"))


@pytest.fixture(scope="session")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Targets:
    """Target environments."""
    return Targets(tmp_path_factory.mktemp("targets"))
