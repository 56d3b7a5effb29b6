"""What the tests of installing share."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.data import data_path
from gpuenv.simulate.stub_driver import FLAGS
from tests.install.sandbox import Ground, Index

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.target import CudaLibraries


@pytest.fixture
def ground(tmp_path_factory: pytest.TempPathFactory, cuda_libraries: CudaLibraries) -> Iterator[Ground]:
    """An index with the stand-ins, a cache, and libraries of CUDA 12 that the loader finds."""
    folder = tmp_path_factory.mktemp("ground")
    index = Index(folder / "index")
    try:
        yield Ground(index, folder, cuda_libraries.of("12.9"))
    finally:
        index.close()


@pytest.fixture
def killer(tmp_path: Path) -> Path:
    """A library that kills whoever has loaded it, at the call that it is told."""
    path = tmp_path / "kill.so"
    subprocess.run(["cc", *FLAGS, "-o", str(path), str(data_path("native") / "kill.c")], check=True)
    return path
