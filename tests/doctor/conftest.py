"""What the tests of the doctor share."""

from __future__ import annotations

import pytest

from gpuenv.data import data_path
from gpuenv.matrix.load import load
from gpuenv.matrix.records import Matrix


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    return load(data_path("matrix.yaml"))
