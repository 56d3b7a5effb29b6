"""Fixtures of the doctor's tests."""

from __future__ import annotations

import pytest

from gpuenv.matrix.tables import Matrix
from tests.support.matrix import MATRIX


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    return MATRIX
