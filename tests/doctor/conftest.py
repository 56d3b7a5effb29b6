"""What the tests of the doctor share."""

from __future__ import annotations

import pytest

from gpuenv.matrix.tables import Matrix
from tests.support.matrix import MATRIX


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    return MATRIX
