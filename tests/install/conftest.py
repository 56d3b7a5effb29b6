"""Fixtures of the install tests."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.data import data_path
from gpuenv.simulate.stub_driver import FLAGS
from tests.install.sandbox import Index, Sandbox

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.target import CudaLibraries


@contextmanager
def new_sandbox(tmp_path_factory: pytest.TempPathFactory, cuda_libraries: CudaLibraries) -> Iterator[Sandbox]:
    """A sandbox with the stand-in packages and CUDA 12 libraries."""
    folder = tmp_path_factory.mktemp("sandbox")
    index = Index(folder / "index")
    try:
        yield Sandbox(index, folder, cuda_libraries.of("12.9"))
    finally:
        index.close()


@pytest.fixture
def sandbox(tmp_path_factory: pytest.TempPathFactory, cuda_libraries: CudaLibraries) -> Iterator[Sandbox]:
    """A sandbox of the test's own, with an empty cache and an index in which the test can set faults."""
    with new_sandbox(tmp_path_factory, cuda_libraries) as found:
        yield found


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, cuda_libraries: CudaLibraries) -> Iterator[Sandbox]:
    """A sandbox whose cache and index all tests share; each test names its environments differently."""
    with new_sandbox(tmp_path_factory, cuda_libraries) as found:
        yield found


@pytest.fixture
def killer(tmp_path: Path) -> Path:
    """A preload library that kills its process at a given file system call."""
    path = tmp_path / "kill.so"
    subprocess.run(["cc", *FLAGS, "-o", str(path), str(data_path("native") / "kill.c")], check=True)
    return path
